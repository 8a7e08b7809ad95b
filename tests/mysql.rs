//! MySQL and MariaDB as users configure them: every setting has its effect on a real server.

#![cfg(feature = "mysql")]

use std::time::Duration;

use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use polylock::{Config, DistributedLockExt, ErrorKind, MySqlHold, connect};

fn server() -> &'static SqlServer {
    SqlServer::shared(SqlVendor::MariaDb)
}

/// Returns a URL with a table of its own, so that tests do not disturb each other.
fn url(table: &str) -> String {
    format!("{}?table={table}", server().url())
}

fn tables(like: &str) -> String {
    let pattern = like.replace('_', "\\_");
    server().execute(&format!("show tables like '{pattern}%'"))
}

async fn refusal(config: impl polylock::IntoConfig) -> polylock::Error {
    match connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn wrong_urls_say_what_to_write() {
    for (url, part) in [
        ("mysql://u@localhost", "names no database"),
        ("mysql://localhost/d", "names no user"),
        (
            "mysql://u@localhost/d?table=a`b",
            "use letters, digits and _",
        ),
        ("mysql://u@localhost/d?table=", "use letters, digits and _"),
        (
            "mysqls://u@localhost/d?tls_cert=c.pem",
            "tls_cert is set without tls_key",
        ),
        (
            "mysql://u@localhost/d?tls_ca=/nowhere.pem",
            "tls_ca: cannot read a certificate from /nowhere.pem",
        ),
    ] {
        let error = refusal(url).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
    let mysql = || Config::new("mysql://u@localhost/d");
    let no_connections = Config {
        connections: Some(0),
        ..mysql()
    };
    let purged_at_once = Config {
        purge_after: Some(Duration::from_millis(1)),
        ..mysql()
    };
    for (config, part) in [
        (no_connections, "allow at least 1"),
        (purged_at_once, "keep unused keys for at least 1 s"),
    ] {
        let error = refusal(config).await;
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn each_vendor_holds_locks_in_either_way() {
    steady(async || {
        for vendor in SqlVendor::available() {
            for hold in ["lease", "row"] {
                let url = format!(
                    "{}?hold={hold}&namespace={hold}",
                    SqlServer::shared(vendor).url()
                );
                let [here, there] = [connect(&url).await.unwrap(), connect(&url).await.unwrap()];
                let guard = here.lock("k").await.unwrap();
                lock_testkit::assert_excluded!(
                    there.try_lock("k").await.unwrap().is_none(),
                    "{url}"
                );
                let first = guard.token();
                guard.release().await.unwrap();
                assert!(there.lock("k").await.unwrap().token() > first, "{url}");
            }
        }
    });
}

#[test]
fn tables_are_created_unless_that_is_turned_off() {
    steady(async || {
        let absent = format!("{}&create_table=false", url("made_by_hand"));
        let error = refusal(&absent).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("made_by_hand"), "{error}");
        assert_eq!(tables("made_by_hand"), "");

        let here = connect(url("made_by_hand")).await.unwrap();
        assert_eq!(tables("made_by_hand"), "made_by_hand\nmade_by_hand_holders");
        let there = connect(absent).await.unwrap();
        let _guard = here.lock("k").await.unwrap();
        lock_testkit::assert_excluded!(there.try_lock("k").await.unwrap().is_none());
    });
}

#[test]
fn fields_win_over_the_url() {
    steady(async || {
        let config = Config {
            hold: Some(MySqlHold::Row),
            table: Some("by_field".into()),
            create_table: Some(true),
            purge_after: Some(Duration::ZERO),
            connections: Some(2),
            ..Config::new(format!(
                "{}&hold=lease&create_table=false&purge_after=1h&connections=9",
                url("by_url")
            ))
        };
        let locks = connect(config).await.unwrap();
        assert!(!locks.capabilities().permits, "leases would have permits");
        assert_eq!(tables("by_field"), "by_field\nby_field_holders");
        assert_eq!(tables("by_url"), "");
    });
}

#[test]
fn connections_are_what_row_locks_can_use_up() {
    steady(async || {
        let locks = connect(format!("{}&hold=row&connections=1", url("few")))
            .await
            .unwrap();
        let first = locks.try_lock("a").await.unwrap().expect("free");
        let error = locks.try_lock("b").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("raise `connections`"), "{error}");
        first.release().await.unwrap();
        assert!(locks.try_lock("b").await.unwrap().is_some());
    });
}

#[test]
fn a_ttl_that_row_locks_cannot_have_is_told_at_once() {
    steady(async || {
        let error = refusal(format!("{}&hold=row&ttl=999ms", url("short"))).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains("ttl 999 ms is out of range for mysql: choose one from 1 s to"),
            "{text}"
        );
        assert!(
            connect(format!("{}&hold=row&ttl=1s", url("short")))
                .await
                .is_ok()
        );
        assert!(connect(format!("{}&ttl=999ms", url("short"))).await.is_ok());
    });
}

#[test]
fn a_lock_delay_that_row_locks_cannot_have_is_told_at_once_and_why() {
    steady(async || {
        let error = refusal(format!("{}&hold=row&lock_delay=5s", url("delay"))).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("its holder's connection dies"), "{text}");
        assert!(text.contains("use hold = \"lease\""), "{text}");
        let leases = format!("{}&lock_delay=5s", url("delay"));
        assert!(connect(leases).await.is_ok());
    });
}

#[test]
fn leases_and_row_locks_exclude_each_other() {
    steady(async || {
        let lease = connect(url("both")).await.unwrap();
        let row = connect(format!("{}&hold=row", url("both"))).await.unwrap();
        for (first, second) in [(&lease, &row), (&row, &lease)] {
            let guard = first.try_lock("k").await.unwrap().expect("free");
            lock_testkit::assert_excluded!(second.try_lock("k").await.unwrap().is_none());
            guard.release().await.unwrap();
            let next = second.lock("k").await.unwrap();
            lock_testkit::assert_excluded!(first.try_lock("k").await.unwrap().is_none());
            next.release().await.unwrap();
        }
    });
}

#[test]
fn permits_are_for_leases() {
    steady(async || {
        let lease = connect(url("permits")).await.unwrap();
        assert!(
            lease
                .permit_within("k", 2, Duration::ZERO)
                .await
                .unwrap()
                .is_some()
        );
        let row = connect(format!("{}&hold=row", url("permits")))
            .await
            .unwrap();
        let error = row.permit_within("k", 2, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn percent_signs_in_users_and_passwords_are_undone() {
    steady(async || {
        server().execute(
            "create user 'a@b/c' identified by 'p?w#d%41'; grant all on locks.* to 'a@b/c'",
        );
        let at = server().url().replace("root@", "a%40b%2Fc:p%3Fw%23d%2541@");
        let locks = connect(at).await.unwrap();
        assert!(locks.try_lock("percent").await.unwrap().is_some());
    });
}

#[test]
fn an_ipv6_address_stands_in_brackets() {
    steady(async || {
        if std::net::TcpListener::bind("[::1]:0").is_err() {
            eprintln!("NO IPV6 on this machine, so nothing is tested on it");
            return;
        }
        let server = SqlServer::start_with(SqlVendor::MariaDb, &["--bind-address=127.0.0.1,::1"]);
        server.execute("create user six@'::1'; grant all on locks.* to six@'::1'");
        let url = format!("mysql://six@[::1]:{}/locks", server.port());
        let locks = connect(url).await.unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
}
