//! Redis.

use std::time::Duration;

use lock_testkit::servers::{Authority, RedisServer};
use polylock::redis::{RedisConfig, RedisLock};
use polylock::{Config, DistributedLockExt, LockRequest};

use crate::keys::Keys;
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

/// Urls that do not work, each for a reason of its own.
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

async fn make_every_mistake(printed: &Printed, port: u16) {
    for url in mistakes(port) {
        printed.show(&Config::new(&url));
        printed.show(&RedisConfig::new(&url));
        match polylock::connect(&url).await {
            Ok(locks) => panic!("connected to {locks:?} by {url}"),
            Err(error) => printed.show_error(&error),
        }
        match RedisLock::connect(RedisConfig::new(&url)).await {
            // Here a query means nothing.
            Ok(locks) => printed.show(&locks),
            Err(error) => printed.show_error(&error),
        }
    }
}

/// Connects, reconnects, is cut off, and is denied what it had.
async fn live_through_everything(printed: &Printed, url: &str, server: &RedisServer) {
    let locks = polylock::connect(url).await.expect("the right password");
    printed.show(&Config::new(url));
    printed.show(&RedisConfig::new(url));
    let request = LockRequest::exclusive("k").expect("a key");
    let request = request.with_ttl(Duration::from_millis(900));
    printed.show(&request);
    let guard = locks
        .acquire(request)
        .await
        .expect("connected")
        .expect("free");
    printed.show(&locks);
    printed.show(&guard);
    printed.show(&guard.watch());

    let mut admin = admin(server);
    admin
        .command(&["CLIENT", "KILL", "USER", "u"])
        .expect("the server runs");
    drop(locks.lock("other").await.expect("connected"));
    server.freeze();
    printed.show_error(&locks.try_lock("other").await.expect_err("refused"));
    server.thaw();
    admin
        .command(&["ACL", "SETUSER", "u", "-@all"])
        .expect("the server runs");
    printed.show_error(&locks.lock("other").await.expect_err("refused"));
    admin
        .command(&["ACL", "DELUSER", "u"])
        .expect("the server runs");
    printed.show_error(&locks.lock("other").await.expect_err("refused"));
    printed.show(&guard.lost().await);
    printed.show(&guard);
    if let Err(error) = guard.release().await {
        printed.show_error(&error);
    }
    server.kill();
    printed.show_error(&locks.try_lock("other").await.expect_err("refused"));
    printed.show(&locks);
}

async fn live_through_everything_over_tls(printed: &Printed) {
    let authority = Authority::new();
    let demanding = ["--requirepass", PASSWORD, "--tls-auth-clients", "yes"];
    let server = RedisServer::start_with_tls(&authority, &demanding);
    add_user(&server);
    let keys = Keys::new(&authority, server.directory());
    let url = server.tls_url().expect("it was started with TLS");
    let url = url.replace("://", &format!("://u:{ENCODED}@"));
    let url = format!("{url}?tls_ca={}", authority.ca().display());
    for url in keys.mistakes(&url) {
        printed.show(&Config::new(&url));
        match polylock::connect(&url).await {
            Ok(locks) => panic!("connected to {locks:?} by {url}"),
            Err(error) => printed.show_error(&error),
        }
    }
    live_through_everything(printed, &keys.shown_in(&url), &server).await;
    keys.assert_hidden(printed);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_password_is_printed_or_logged() {
    let printed = Printed::with_all_that_is_logged();
    let server = RedisServer::start_with(&["--requirepass", PASSWORD]);
    add_user(&server);
    make_every_mistake(printed, server.port()).await;
    let url = format!("redis://u:{ENCODED}@127.0.0.1:{}/0", server.port());
    live_through_everything(printed, &url, &server).await;
    live_through_everything_over_tls(printed).await;
    printed.assert_no_secret();
    printed.assert_has(&["DEBUG", "lock_redis", "WARN", "lock lost"]);
}
