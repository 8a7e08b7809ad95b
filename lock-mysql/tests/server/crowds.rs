//! Many waiters and many keys.

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, Mode, Wait};
use lock_mysql::{MySqlConfig, MySqlHold};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::{LONG, PROMPT, connect, connect_with, exclusive, take, take_soon};

/// Returns the number of statements that all clients have sent so far.
fn statements(server: &SqlServer) -> u64 {
    let status = server.execute("SHOW GLOBAL STATUS LIKE 'Questions'");
    let number = status.split('\t').nth(1).expect("a value");
    number.parse().expect("a number")
}

/// Returns the number of statements per second while all waiters wait.
async fn rate(server: &SqlServer) -> u64 {
    let ends = Instant::now() + PROMPT * 6;
    loop {
        let (before, begun) = (statements(server), Instant::now());
        sleep(Duration::from_secs(3)).await;
        let sent = statements(server) - before;
        let took = u64::try_from(begun.elapsed().as_millis()).expect("few");
        let rate = sent * 1000 / took;
        // Thousands of waiters that arrive at once first send one request each.
        if rate <= 25 || Instant::now() > ends {
            return rate;
        }
    }
}

#[test]
fn waiters_for_one_key_and_for_many_ask_25_times_a_second_together() {
    const KEYS: u32 = 3000;

    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let (holder, locks) = (
                connect(&server, MySqlHold::Lease).await,
                connect(&server, MySqlHold::Lease).await,
            );
            let held = take(&holder, "k", LONG).await;
            let mut waiting = JoinSet::new();
            for _ in 0..KEYS {
                let locks = locks.clone();
                waiting.spawn(async move { take_soon_or_late(&locks, "k").await });
            }
            let one = rate(&server).await;
            assert!(one <= 25, "{vendor:?}: {one} a second for one key");
            held.release().await.expect("it runs");
            while let Some(done) = waiting.join_next().await {
                done.expect("granted in turn");
            }
            let values: Vec<String> = (0..KEYS)
                .map(|number| format!("('key {number}', x'00', 1, '2090-01-01')"))
                .collect();
            let values = values.join(", ");
            server.execute(&format!(
                "INSERT INTO locks (k, owner, token, expires) VALUES {values}"
            ));
            for number in 0..KEYS {
                let locks = locks.clone();
                waiting.spawn(
                    async move { take_soon_or_late(&locks, &format!("key {number}")).await },
                );
            }
            let many = rate(&server).await;
            println!("{vendor:?}: {one} and {many} statements a second");
            assert!(many <= 25, "{vendor:?}: {many} a second for many keys");
            let begun = Instant::now();
            server.execute("UPDATE locks SET owner = NULL");
            while let Some(done) = waiting.join_next().await {
                done.expect("granted");
            }
            println!("{vendor:?}: {KEYS} turns in {:?}", begun.elapsed());
        }
    });
}

/// Takes a lock and releases it in the background, since thousands of tasks wait for connections.
async fn take_soon_or_late(locks: &lock_mysql::MySqlLock, key: &str) {
    let request = exclusive(key, LONG).with_wait(Wait::within(LONG * 2));
    let guard = locks.acquire(request).await.expect("it runs");
    drop(guard.expect("free in time"));
}

#[test]
fn batches_that_the_server_refuses_for_their_size_are_halved() {
    const TTL: Duration = Duration::from_secs(12);

    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start_with(vendor, &["--max-allowed-packet=8192"]);
            let config = MySqlConfig::new(server.url());
            let config = config.with_purge_after(Some(Duration::from_secs(1)));
            let locks = connect_with(config).await;
            let long = "x".repeat(200);
            let mut guards: Vec<LockGuard> = Vec::new();
            for number in 0..60 {
                guards.push(take(&locks, &format!("{number} {long}"), TTL).await);
                let mut read = exclusive(&format!("read {number} {long}"), TTL);
                read.mode = Mode::Shared;
                guards.push(take_soon(&locks, read).await);
            }
            let other = connect(&server, MySqlHold::Lease).await;
            let mut waiting = JoinSet::new();
            for number in 0..60 {
                let (locks, key) = (other.clone(), format!("{number} {long}"));
                waiting.spawn(async move { take_soon_or_late(&locks, &key).await });
            }
            // After this time all holds are due, and are renewed together.
            server.freeze();
            sleep(TTL * 3 / 8).await;
            server.thaw();
            sleep(TTL * 6 / 8).await;
            let lost = guards.iter().filter(|guard| !guard.is_held()).count();
            assert_eq!(lost, 0, "{vendor:?}: lost for the size of their batch");
            for guard in guards {
                guard.release().await.expect("it runs");
            }
            while let Some(done) = waiting.join_next().await {
                done.expect("it is woken");
            }
            let left = "SELECT COUNT(*) FROM locks WHERE k <> ''";
            let purged = async || server.execute(left) == "0";
            eventually(PROMPT * 3, "all are purged", purged).await;
        }
    });
}
