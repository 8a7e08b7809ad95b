//! Servers that are demoted in use, also for users who may still write.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, LockGuard, LockRequest, LossReason, Mode, Wait};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::faults::Proxy;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

use crate::{BOTH, LONG, PROMPT, connect, connect_with, exclusive, take, take_soon};

/// Returns the settings that demote a server without a restart.
fn settings(vendor: SqlVendor) -> &'static [&'static str] {
    match vendor {
        SqlVendor::MariaDb => &["read_only"],
        SqlVendor::MySql => &["read_only", "super_read_only", "offline_mode"],
    }
}

fn set(server: &SqlServer, setting: &str, value: u8) {
    server.execute(&format!("SET GLOBAL {setting} = {value}"));
    if setting == "super_read_only" && value == 0 {
        // Setting `super_read_only` also sets `read_only`, but clearing it does not clear
        // `read_only`.
        server.execute("SET GLOBAL read_only = 0");
    }
}

#[test]
fn a_row_lock_ends_soon_after_its_server_was_demoted_whatever_its_ttl() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Row).await;
            for setting in settings(vendor) {
                let guard = take(&locks, "k", LONG).await;
                set(&server, setting, 1);
                let lost = timeout(Duration::from_secs(1), guard.lost()).await;
                let lost = lost.unwrap_or_else(|_| panic!("two holders soon, by {setting}"));
                assert_eq!(lost, LossReason::Removed, "{setting}");
                set(&server, setting, 0);
                // The client has ended the transaction, although the guard still exists.
                drop(take_soon(&locks, exclusive("k", LONG)).await);
                drop(guard);
            }
        }
    });
}

#[test]
fn leases_end_at_their_deadline_on_a_server_that_was_demoted() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(2);
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Lease).await;
            for setting in settings(vendor) {
                let one = take_soon(&locks, exclusive("one", TTL)).await;
                let shared = LockRequest::shared("shared").expect("a key");
                let shared = take_soon(&locks, shared.with_ttl(TTL)).await;
                let begun = Instant::now();
                set(&server, setting, 1);
                for guard in [&one, &shared] {
                    let lost = timeout(PROMPT, guard.lost()).await.expect("it is told");
                    assert_eq!(lost, LossReason::Expired, "{setting}");
                }
                assert!(begun.elapsed() < TTL * 3 / 2, "{setting}: two holders soon");
                set(&server, setting, 0);
            }
        }
    });
}

/// Asserts that `locks` refuses `request` on a server that `setting` has demoted.
async fn refused(locks: &MySqlLock, request: LockRequest, setting: &str) {
    let answer: Result<Option<LockGuard>, _> = locks.acquire(request).await;
    let error = answer.expect_err("it may not grant");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // MySQL has its own error text.
    let text = error.to_string().replace('-', "_");
    assert!(text.contains(setting), "{error}");
    assert!(text.contains("connect to the primary"), "{error}");
}

#[test]
fn a_server_that_was_demoted_grants_nothing_to_whoever_asks() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in BOTH {
                let locks = connect(&server, hold).await;
                drop(take(&locks, "known", LONG).await);
                for setting in settings(vendor) {
                    set(&server, setting, 1);
                    for key in ["known", "new"] {
                        for wait in [0, 2000].map(Duration::from_millis) {
                            let request = exclusive(key, LONG).with_wait(Wait::within(wait));
                            refused(&locks, request, setting).await;
                        }
                        let shared = LockRequest::shared(key).expect("a key");
                        refused(&locks, shared.without_waiting(), setting).await;
                    }
                    let rows = server.execute("SELECT COUNT(*) FROM locks");
                    assert_eq!(rows, "1", "{setting}: it was written to");
                    set(&server, setting, 0);
                }
                if hold == MySqlHold::Lease {
                    let permit = Mode::permit(2).expect("permits");
                    let key = exclusive("permits", LONG).key;
                    set(&server, "read_only", 1);
                    refused(
                        &locks,
                        LockRequest::new(key, permit).without_waiting(),
                        "read_only",
                    )
                    .await;
                    set(&server, "read_only", 0);
                }
                drop(take_soon(&locks, exclusive("known", LONG)).await);
            }
        }
    });
}

/// The client's connections to the old primary stay open, as behind a proxy or a changed DNS entry.
#[test]
fn a_client_finds_the_new_primary_after_a_switchover() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let (old, new) = (SqlServer::start(vendor), SqlServer::start(vendor));
            for hold in BOTH {
                let proxy = Proxy::before(old.port());
                let [from, to] = [old.port(), proxy.port()].map(|port| format!(":{port}"));
                let config = MySqlConfig::new(old.url().replace(&from, &to)).with_hold(hold);
                let locks = connect_with(config).await;
                let guard = take(&locks, "k", LONG).await;
                guard.release().await.expect("it runs");
                set(&old, "read_only", 1);
                proxy.lead_to(new.port());
                let request = exclusive("k", LONG).with_wait(Wait::within(PROMPT / 2));
                let granted = locks.acquire(request).await;
                set(&old, "read_only", 0);
                let guard = granted.unwrap_or_else(|error| panic!("{vendor:?} {hold:?}: {error}"));
                guard.expect("free").release().await.expect("it runs");
            }
        }
    });
}
