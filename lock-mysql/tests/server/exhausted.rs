//! Servers with few connections. A row lock needs its own connection.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockGuard, Wait};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{BOTH, LONG, PROMPT, connect_with, exclusive, take, take_soon};

#[test]
fn a_client_whose_connections_all_hold_locks_says_so_in_time_and_releases() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let config = MySqlConfig::new(server.url()).with_hold(MySqlHold::Row);
        let locks = connect_with(config.with_connections(4)).await;
        let mut held = Vec::new();
        for number in 0..4 {
            held.push(take(&locks, &format!("k{number}"), LONG).await);
        }
        for wait in [0, 300, 1500].map(Duration::from_millis) {
            let begun = Instant::now();
            let request = exclusive("one more", LONG).with_wait(Wait::within(wait));
            let error = locks.acquire(request).await.expect_err("none is left");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("connections"), "{error}");
            let took = begun.elapsed();
            assert!(took < wait + Duration::from_secs(1), "{took:?} of {wait:?}");
        }
        for guard in held {
            assert_eq!(guard.release().await.expect("it runs"), Released::Released);
        }
        take(&locks, "one more", LONG)
            .await
            .release()
            .await
            .expect("it runs");
    });
}

#[test]
fn a_server_without_a_connection_left_says_so() {
    steady(async || {
        let server = SqlServer::start_with(SqlVendor::MariaDb, &["--max-connections=10"]);
        let config = MySqlConfig::new(server.url()).with_hold(MySqlHold::Row);
        let locks = connect_with(config.with_connections(30)).await;
        let (mut held, mut refused) = (Vec::new(), 0);
        for number in 0..20 {
            match locks.acquire(exclusive(&format!("k{number}"), LONG)).await {
                Ok(guard) => held.push(guard.expect("free")),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    refused += 1;
                }
            }
        }
        // The server reserves one further connection for privileged users.
        assert!(refused >= 9, "{refused}");
        for guard in held {
            assert_eq!(guard.release().await.expect("it runs"), Released::Released);
        }
    });
}

/// Returns the url of a new user who may open `connections` connections.
fn user(server: &SqlServer, connections: u32) -> String {
    server.execute(&format!(
        "DROP USER IF EXISTS few@'127.0.0.1'; CREATE USER few@'127.0.0.1' WITH MAX_USER_CONNECTIONS {connections}; GRANT ALL ON locks.* TO few@'127.0.0.1'"
    ));
    format!("mysql://few@127.0.0.1:{}/locks", server.port())
}

/// Takes and releases `key` until `ends`, and returns the number of turns.
async fn work(locks: MySqlLock, key: String, ends: Instant) -> u32 {
    let mut turns = 0;
    while Instant::now() < ends {
        let guard = locks.lock(&key).await.expect("it waits for a connection");
        let released = guard.release().await;
        assert_eq!(released.expect("no failed release"), Released::Released);
        turns += 1;
    }
    turns
}

/// The client does everything with the allowed connections, only slower.
#[test]
fn a_client_gets_along_with_the_connections_that_the_server_allows() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for (hold, allowed) in BOTH.into_iter().flat_map(|hold| [(hold, 10), (hold, 3)]) {
                let config = MySqlConfig::new(user(&server, allowed)).with_hold(hold);
                let locks = connect_with(config).await;
                let ends = Instant::now() + Duration::from_secs(2);
                let mut workers = JoinSet::new();
                for number in 0..64 {
                    workers.spawn(work(locks.clone(), format!("k{number}"), ends));
                }
                let mut least = u32::MAX;
                while let Some(turns) = workers.join_next().await {
                    least = least.min(turns.expect("no error"));
                }
                assert!(
                    least > 0,
                    "{vendor:?}, {hold:?}, {allowed}: someone starved"
                );
                locks.shutdown(PROMPT).await.expect("the server runs");
            }
        }
    });
}

/// A client keeps every connection that it could not open again, since another client might take
/// it. Row locks need more than the one connection that each client has.
#[test]
fn clients_share_the_connections_that_the_server_allows() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let url = user(&server, 10);
            let connecting = (0..4).map(|_| connect_with(MySqlConfig::new(url.clone())));
            let clients = join_all(connecting).await;
            let ends = Instant::now() + Duration::from_secs(4);
            let (mut workers, mut least) = (JoinSet::new(), u32::MAX);
            for number in 0..60 {
                let locks = clients[number % 4].clone();
                workers.spawn(work(locks, format!("k{number}"), ends));
            }
            while let Some(turns) = workers.join_next().await {
                least = least.min(turns.expect("no error"));
            }
            assert!(least > 0, "{vendor:?}: someone starved");
            for locks in clients {
                locks.shutdown(PROMPT).await.expect("the server runs");
            }
        }
    });
}

#[test]
fn a_connection_that_comes_back_is_waited_for_where_the_server_allows_no_other() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let config = MySqlConfig::new(user(&server, 3)).with_hold(MySqlHold::Row);
            let locks = connect_with(config).await;
            let mut held = Vec::new();
            let refused = loop {
                match locks
                    .acquire(exclusive(&format!("k{}", held.len()), LONG))
                    .await
                {
                    Ok(guard) => held.push(guard.expect("free")),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(
                refused.contains("allows no further connection"),
                "{refused}"
            );
            assert!((2..=3).contains(&held.len()), "{held:?}");
            let waiting = take_soon(&locks, exclusive("k0 of others", LONG));
            let releasing = held.pop().expect("some").release();
            let (next, released) = tokio::join!(waiting, releasing);
            assert_eq!(released.expect("the server runs"), Released::Released);
            assert!(held.iter().all(LockGuard::is_held), "{next:?}");
        }
    });
}

/// This quota has the same error number as the limit of connections.
#[test]
fn a_quota_of_the_hour_is_told_as_one() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            drop(connect_with(MySqlConfig::new(server.url())).await);
            server.execute("CREATE USER q@'127.0.0.1' WITH MAX_UPDATES_PER_HOUR 3; GRANT ALL ON locks.* TO q@'127.0.0.1'");
            let url = format!("mysql://q@127.0.0.1:{}/locks", server.port());
            let locks = connect_with(MySqlConfig::new(url)).await;
            let mut refused = None;
            for number in 0..10 {
                let request = exclusive(&format!("k{number}"), LONG);
                refused = refused.or(locks.acquire(request).await.err());
            }
            let error = refused.expect("three updates are used up");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("quota of this hour"), "{error}");
        }
    });
}

/// The server refuses a further connection for the rest of the hour. Open connections become free
/// soon.
#[test]
fn takes_wait_for_open_connections_where_those_of_the_hour_are_used_up() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            drop(connect_with(MySqlConfig::new(server.url())).await);
            server.execute("CREATE USER q@'127.0.0.1' WITH MAX_CONNECTIONS_PER_HOUR 6; GRANT ALL ON locks.* TO q@'127.0.0.1'");
            let url = format!("mysql://q@127.0.0.1:{}/locks", server.port());
            let locks = connect_with(MySqlConfig::new(url)).await;
            for _ in 0..2 {
                let taking =
                    (0..20).map(|number| locks.acquire(exclusive(&format!("k{number}"), LONG)));
                let taken = join_all(taking).await.into_iter();
                let taken = taken.map(|answer| answer.expect("some are open").expect("free"));
                for released in join_all(taken.map(LockGuard::release)).await {
                    assert_eq!(released.expect("some are open"), Released::Released);
                }
            }
        }
    });
}
