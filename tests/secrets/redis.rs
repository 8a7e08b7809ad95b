//! Secrets on Redis.

use lock_testkit::servers::{Authority, RedisServer};
use lock_testkit::steady;
use polylock::redis::{RedisConfig, RedisLock};

use crate::keys::Keys;
use crate::life::{Operator, live_through_everything};
use crate::printed::{ENCODED, PASSWORD, Printed, WRONG};

fn add_user(server: &RedisServer) {
    let mut admin = admin(server);
    let password = format!(">{PASSWORD}");
    let user = ["ACL", "SETUSER", "u", "on", &password, "~*", "+@all"];
    assert_eq!(
        admin
            .command(&user)
            .expect("the server runs")
            .text()
            .as_deref(),
        Some("OK")
    );
}

fn admin(server: &RedisServer) -> lock_testkit::servers::RespClient {
    let mut admin = server.client();
    admin.command(&["AUTH", PASSWORD]).expect("the server runs");
    admin
}

/// Returns invalid URLs, each wrong in its own way.
fn mistakes(port: u16) -> Vec<String> {
    let at = format!("127.0.0.1:{port}");
    [
        format!("redis://u:{WRONG}@{at}"),
        format!("redis://:{WRONG}@{at}"),
        format!("redis://u:{PASSWORD}@{at}"),
        format!("u:{WRONG}@{at}"),
        format!("redis:{WRONG}@{at}"),
        format!("redis://u:{ENCODED}@127.0.0.1:port"),
        format!("redis://u:{ENCODED}@{at}/database"),
        format!("redis://u:{ENCODED}@/0"),
        format!("redis://u:{ENCODED}@{at}?ttl=soon"),
        format!("redis://u:{ENCODED}@{at}?tls_ca=/ca.pem"),
        format!("redis://u:1/{WRONG}@{at}"),
        format!("redis://u:1#{WRONG}@{at}"),
        format!("redis://u:%ff{WRONG}@{at}"),
        format!("redis://u:{ENCODED}@127.0.0.1:1"),
        format!("rediss://u:{ENCODED}@{at}"),
        format!("rediss://u:{ENCODED}@{at}?tls_cert=/cert.pem"),
        format!("mysql://u:{ENCODED}@{at}"),
        format!("memory://u:{ENCODED}@{at}"),
        format!("unix:///nowhere?user=u&pass={WRONG}"),
        format!("redis://{at}?password={WRONG}"),
    ]
    .to_vec()
}

/// Returns connection strings of other programs.
fn foreign(port: u16) -> Vec<String> {
    let at = format!("127.0.0.1:{port}");
    [
        format!("{at},password={WRONG},ssl=true"),
        format!("redis://{at},password={WRONG}"),
        format!("redis://{WRONG}@{at}"),
        format!("Server=127.0.0.1;Uid=u;Pwd={WRONG};Database=d"),
        format!("host=127.0.0.1 port={port} password={WRONG}"),
        format!("jdbc:mysql://{at}/d;user=u;password={WRONG}"),
        format!("jdbc:mysql://address=(host=h)(user=u)(password={WRONG})/d"),
    ]
    .to_vec()
}

async fn make_every_mistake(printed: &Printed, port: u16) {
    for url in foreign(port) {
        printed.show_refusal(&url).await;
    }
    for url in mistakes(port) {
        printed.show_refusal(&url).await;
        printed.show(&RedisConfig::new(&url));
        match RedisLock::connect(RedisConfig::new(&url)).await {
            // The backend itself ignores a query.
            Ok(locks) => printed.show(&locks),
            Err(error) => printed.show_error(&error),
        }
    }
}

/// Puts a client through all events; the server is gone afterwards.
async fn live(printed: &Printed, url: &str, server: &RedisServer) {
    printed.show(&RedisConfig::new(url));
    let order = |words: &[&str]| {
        let answer = admin(server).command(words);
        answer.expect("the server runs");
    };
    let operator = Operator {
        freeze: &|| server.freeze(),
        thaw: &|| server.thaw(),
        kill: &|| server.kill(),
        cut_off: &|| order(&["CLIENT", "KILL", "USER", "u"]),
        denials: &[&|| order(&["ACL", "SETUSER", "u", "-@all"]), &|| {
            order(&["ACL", "DELUSER", "u"])
        }],
    };
    live_through_everything(printed, url, operator).await;
}

async fn live_over_tls(printed: &Printed) {
    let authority = Authority::new();
    let demanding = ["--requirepass", PASSWORD, "--tls-auth-clients", "yes"];
    let server = RedisServer::start_with_tls(&authority, &demanding);
    add_user(&server);
    let keys = Keys::new(&authority, server.directory());
    let url = server.tls_url().expect("it was started with TLS");
    let url = url.replace("://", &format!("://u:{ENCODED}@"));
    let url = format!("{url}?ttl=1s&tls_ca={}", authority.ca().display());
    for url in keys.mistakes(&url) {
        printed.show_refusal(&url).await;
    }
    live(printed, &keys.shown_in(&url), &server).await;
    keys.assert_hidden(printed);
}

#[test]
fn no_password_is_printed_or_logged() {
    steady(async || {
        let printed = Printed::with_all_that_is_logged();
        let server = RedisServer::start_with(&["--requirepass", PASSWORD]);
        add_user(&server);
        make_every_mistake(printed, server.port()).await;
        let url = format!("redis://u:{ENCODED}@127.0.0.1:{}/0?ttl=1s", server.port());
        live(printed, &url, &server).await;
        live_over_tls(printed).await;
        printed.assert_no_secret();
        printed.assert_has(&["DEBUG", "renewal", "WARN", "lock lost"]);
    });
}
