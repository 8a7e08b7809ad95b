//! Secrets on MySQL and MariaDB.

use lock_testkit::servers::{Authority, SqlServer, SqlVendor};
use lock_testkit::steady;
use polylock::mysql::{MySqlConfig, MySqlLock};

use crate::keys::Keys;
use crate::life::{Operator, live_through_everything};
use crate::printed::{ENCODED, PASSWORD, Printed, WRONG};

fn add_user(server: &SqlServer, demand: &str) {
    server.execute(&format!(
        "create user u identified by '{PASSWORD}' {demand}; grant all on locks.* to u"
    ));
}

/// Ends the connections of the user on the server.
fn cut_off(server: &SqlServer) {
    let open = server.execute("select id from information_schema.processlist where user = 'u'");
    for id in open.lines() {
        // The connection may have ended in the meantime.
        let _ended = server.try_execute(&format!("kill {id}"));
    }
}

/// Returns invalid URLs, each wrong in its own way.
fn mistakes(port: u16) -> Vec<String> {
    let at = format!("127.0.0.1:{port}");
    let good = format!("mysql://u:{ENCODED}@{at}/locks");
    [
        format!("mysql://u:{WRONG}@{at}/locks"),
        format!("mysql://:{WRONG}@{at}/locks"),
        format!("mysql://nobody:{ENCODED}@{at}/locks"),
        format!("mysql://u:{PASSWORD}@{at}/locks"),
        format!("u:{WRONG}@{at}/locks"),
        format!("mysql:{WRONG}@{at}/locks"),
        format!("mysql://u:{ENCODED}@127.0.0.1:port/locks"),
        format!("mysql://u:{ENCODED}@/locks"),
        format!("mysql://u:{ENCODED}@{at}"),
        format!("mysql://u:{ENCODED}@{at}/elsewhere"),
        format!("{good}?ttl=soon"),
        format!("{good}?hold=soon"),
        format!("{good}?table=a.b.c"),
        format!("{good}?create_table=false&table=missing"),
        format!("{good}?tls_ca=/nowhere.pem"),
        format!("{good}?tls_cert=/cert.pem"),
        format!("{good}?password={WRONG}"),
        format!("{good}?ssl-key={WRONG}"),
        format!("{good}#{WRONG}"),
        format!("mysql://u:1/{WRONG}@{at}/locks"),
        format!("mysql://u:1#{WRONG}@{at}/locks"),
        format!("mysql://u:%ff{WRONG}@{at}/locks"),
        // The driver reads these as the database of another server.
        format!("mysql://{at}/{WRONG}@127.0.0.1/locks"),
        format!("mysql://root:@{at}/{WRONG}@127.0.0.1/locks"),
        format!("mysql://u:{ENCODED}@127.0.0.1:1/locks"),
        format!("mysqls://u:{ENCODED}@{at}/locks"),
        format!("redis://u:{ENCODED}@{at}/locks"),
        format!("memory://u:{ENCODED}@{at}/locks"),
    ]
    .to_vec()
}

async fn make_every_mistake(printed: &Printed, port: u16) {
    for url in mistakes(port) {
        printed.show_refusal(&url).await;
        printed.show(&MySqlConfig::new(&url));
        match MySqlLock::connect(MySqlConfig::new(&url)).await {
            Ok(locks) => panic!("connected to {locks:?} by {url}"),
            Err(error) => printed.show_error(&error),
        }
    }
}

/// Puts a client through all events; the server is as before afterwards.
async fn live(printed: &Printed, url: &str, server: &SqlServer) {
    printed.show(&MySqlConfig::new(url));
    let deny = || {
        server.execute("alter user u identified by 'another'");
        cut_off(server);
    };
    let operator = Operator {
        freeze: &|| server.freeze(),
        thaw: &|| server.thaw(),
        kill: &|| server.kill(),
        cut_off: &|| cut_off(server),
        denials: &[&deny],
    };
    live_through_everything(printed, url, operator).await;
    server.restart();
    server.execute(&format!("alter user u identified by '{PASSWORD}'"));
}

async fn live_over_tls(printed: &Printed, vendor: SqlVendor) {
    let authority = Authority::new();
    let server = SqlServer::start_with_tls::<&str>(vendor, &authority, &[]);
    add_user(&server, "require x509");
    let keys = Keys::new(&authority, server.directory());
    let port = server.port();
    let url = format!("mysqls://u:{ENCODED}@127.0.0.1:{port}/locks");
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
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            add_user(&server, "");
            make_every_mistake(printed, server.port()).await;
            let url = format!("mysql://u:{ENCODED}@127.0.0.1:{}/locks", server.port());
            for hold in ["lease", "row"] {
                let url = format!("{url}?hold={hold}&ttl=1s");
                live(printed, &url, &server).await;
            }
            live_over_tls(printed, vendor).await;
        }
        printed.assert_no_secret();
        printed.assert_has(&["DEBUG", "renewal", "WARN", "lock lost"]);
    });
}
