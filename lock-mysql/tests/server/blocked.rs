//! Blocked tables, which are an error and not the same as a held lock.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, LockRequest, Wait};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlSession, SqlVendor};
use lock_testkit::{assert_excluded, eventually, steady};

use crate::{BOTH, LONG, PROMPT, connect, connect_with, exclusive, is_free, take, take_soon};

/// A ttl that leaves little time for a request.
const SHORT: Duration = Duration::from_secs(3);

/// Statements that block the table and unblock it, and a phrase that the error must contain.
const ALL: [(&str, &str, &str); 6] = [
    ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", "READ LOCK"),
    (
        "LOCK TABLES locks WRITE, locks_holders WRITE",
        "UNLOCK TABLES",
        "LOCK TABLES",
    ),
    (
        "LOCK TABLES locks READ, locks_holders READ",
        "UNLOCK TABLES",
        "LOCK TABLES",
    ),
    (
        "SET autocommit = 0; LOCK TABLES locks READ, locks_holders READ",
        "UNLOCK TABLES",
        "LOCK TABLES",
    ),
    (
        "FLUSH TABLES locks, locks_holders FOR EXPORT",
        "UNLOCK TABLES",
        "FLUSH TABLES",
    ),
    (
        "SET autocommit = 0; LOCK TABLES locks WRITE, locks_holders WRITE",
        "UNLOCK TABLES",
        "LOCK TABLES",
    ),
];

fn begin(server: &SqlServer, statements: &str) -> SqlSession {
    let mut blocking_claim = server.session();
    for statement in statements.split("; ") {
        blocking_claim.run(statement);
    }
    blocking_claim
}

async fn assert_blocked(locks: &MySqlLock, request: LockRequest, word: &str) {
    let answer = locks.acquire(request.clone()).await;
    let error = match answer {
        Ok(told) => panic!("a blocked table is no lock that is held: {request:?} {told:?}"),
        Err(error) => error,
    };
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
    assert!(text.contains(word), "{request:?}: {text}");
    assert!(text.contains("blocked"), "{text}");
}

#[test]
fn a_blocked_table_is_told_with_what_blocks_it() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in BOTH {
                let locks = connect(&server, hold).await;
                drop(take(&locks, "free", LONG).await);
                for (number, (block, unblock, word)) in ALL.into_iter().enumerate() {
                    let mut blocking_claim = begin(&server, block);
                    let mut requests = vec![exclusive("free", SHORT)];
                    // A row lock for readers only reads the row, so a read lock on the table does
                    // not block it.
                    if hold == MySqlHold::Lease || block.contains("WRITE") {
                        let shared = LockRequest::shared("free").expect("a key");
                        requests.push(shared.with_ttl(SHORT).without_waiting());
                    }
                    if number == 0 {
                        let waits =
                            [300, 1500].map(|wait| Wait::within(Duration::from_millis(wait)));
                        requests.extend(waits.map(|wait| exclusive("free", LONG).with_wait(wait)));
                        requests.extend([exclusive("free", LONG), exclusive("new", SHORT)]);
                    }
                    for request in requests {
                        assert_blocked(&locks, request, word).await;
                    }
                    blocking_claim.run(unblock);
                    drop(take_soon(&locks, exclusive("free", LONG)).await);
                }
            }
        }
    });
}

/// The requests wait behind a statement that itself waits for a held row.
#[test]
fn a_change_of_the_table_that_waits_for_a_held_row_is_told() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let rows = connect(&server, MySqlHold::Row).await;
            let leases = connect(&server, MySqlHold::Lease).await;
            drop(take(&leases, "free", LONG).await);
            let held = take(&rows, "held", LONG).await;
            let mut altering = server.session();
            altering.begin("ALTER TABLE locks COMMENT = 'changed'");
            eventually(PROMPT, "it waits for the row", || async {
                let waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%'";
                server.execute(waiting) == "1"
            })
            .await;
            for locks in [&rows, &leases] {
                assert_blocked(locks, exclusive("free", LONG), "ALTER TABLE").await;
            }
            assert!(held.is_held(), "its connection needs no table");
            held.release().await.expect("the server runs");
            for locks in [&rows, &leases] {
                drop(take_soon(locks, exclusive("free", LONG)).await);
            }
        }
    });
}

#[test]
fn a_backup_that_blocks_commits_is_told_to_leases() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let leases = connect(&server, MySqlHold::Lease).await;
        drop(take(&leases, "free", LONG).await);
        let mut backup = begin(&server, "BACKUP STAGE START; BACKUP STAGE BLOCK_COMMIT");
        assert_blocked(&leases, exclusive("free", LONG), "BACKUP").await;
        backup.run("BACKUP STAGE END");
        drop(take_soon(&leases, exclusive("free", LONG)).await);
    });
}

/// A request waits behind the block with the row locked. Other requests must not mistake it for a
/// holder.
#[test]
fn tries_that_meet_behind_a_block_all_say_so() {
    const HOLDERS: [(&str, &str); 2] = [
        ("LOCK TABLES locks_holders WRITE", "UNLOCK TABLES"),
        ("LOCK TABLES locks_holders READ", "UNLOCK TABLES"),
    ];
    const COMMITS: (&str, &str) = (
        "BACKUP STAGE START; BACKUP STAGE BLOCK_COMMIT",
        "BACKUP STAGE END",
    );
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for block in HOLDERS {
                all_say_so(&server, MySqlHold::Lease, block, &together()).await;
            }
            if vendor == SqlVendor::MariaDb {
                let [shared, permit] = together();
                let leases = [exclusive("k", LONG), shared.clone(), permit];
                all_say_so(&server, MySqlHold::Lease, COMMITS, &leases).await;
                let rows = [exclusive("new", LONG), shared];
                all_say_so(&server, MySqlHold::Row, COMMITS, &rows).await;
            }
        }
    });
}

fn together() -> [LockRequest; 2] {
    let requests = [LockRequest::shared("k"), LockRequest::permit("k", 2)];
    requests.map(|request| request.expect("a key").with_ttl(LONG).without_waiting())
}

/// Lets two clients try at once, and one of them again. All must report the block.
///
/// A row lock writes to the table only for a new row.
async fn all_say_so(
    server: &SqlServer,
    hold: MySqlHold,
    (block, unblock): (&str, &str),
    requests: &[LockRequest],
) {
    let (ours, theirs) = (connect(server, hold).await, connect(server, hold).await);
    for (number, request) in requests.iter().enumerate() {
        let mut request = request.clone();
        let name = format!("{hold:?} {block} {number}");
        request.key = name.as_str().try_into().expect("a key");
        if hold == MySqlHold::Lease {
            drop(take_soon(&ours, request.clone()).await);
        }
        let mut blocking_claim = begin(server, block);
        tokio::join!(
            assert_blocked(&ours, request.clone(), "blocked"),
            assert_blocked(&theirs, request.clone(), "blocked"),
        );
        assert_blocked(&ours, request.clone(), "blocked").await;
        blocking_claim.run(unblock);
        drop(take_soon(&theirs, request).await);
    }
}

#[test]
fn a_backup_of_mysql_blocks_no_lock() {
    steady(async || {
        if !SqlVendor::MySql.is_available() {
            return;
        }
        let server = SqlServer::start(SqlVendor::MySql);
        for hold in BOTH {
            let locks = connect(&server, hold).await;
            let mut backup = begin(&server, "LOCK INSTANCE FOR BACKUP");
            let held = take(&locks, "k", LONG).await;
            assert_excluded!(!is_free(&locks, "k").await, "two holders");
            held.release().await.expect("the server runs");
            backup.run("UNLOCK INSTANCE");
        }
    });
}

/// A slice of the wait is a second or more, which is longer than the server's limit for statements.
#[test]
fn a_wait_outlasts_the_servers_limit_for_statements() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            server.execute(match vendor {
                SqlVendor::MariaDb => "SET GLOBAL max_statement_time = 0.2; CREATE USER app@'127.0.0.1' WITH MAX_STATEMENT_TIME 0.2",
                SqlVendor::MySql => "SET GLOBAL max_execution_time = 200; CREATE USER app@'127.0.0.1'",
            });
            server.execute("GRANT ALL ON locks.* TO app@'127.0.0.1'");
            let url = format!("mysql://app@127.0.0.1:{}/locks", server.port());
            let rows = connect_with(MySqlConfig::new(url).with_hold(MySqlHold::Row)).await;
            let held = take(&rows, "k", LONG).await;
            let wait = Wait::within(Duration::from_secs(4));
            let waited = rows.acquire(exclusive("k", LONG).with_wait(wait)).await;
            assert!(waited.expect("busy is no error").is_none());
            drop(held);
        }
    });
}
