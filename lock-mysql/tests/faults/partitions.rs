//! Connections that die silently, while new connections can be opened.

use std::time::Duration;

use lock_core::{LossReason, Mode};
use lock_mysql::MySqlHold;
use lock_testkit::servers::SqlVendor;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::PROMPT;
use crate::bed::{Bed, request, take};

/// Drops all packets on the present connections.
fn silence_all_so_far(bed: &Bed) {
    for number in 0..bed.proxy.all().count() {
        bed.proxy.nth(number).lose();
    }
}

#[test]
fn leases_outlive_connections_that_die_silently() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(6);
        let bed = Bed::new(SqlVendor::MariaDb);
        let locks = bed.client(MySqlHold::Lease).await;
        let mut held = Vec::new();
        let mut busy = JoinSet::new();
        for number in 0..20 {
            let request = request(&format!("busy {number}"), Mode::Exclusive, TTL);
            let locks = locks.clone();
            // Open as many connections as the pool allows.
            busy.spawn(async move { take(&locks, &request).await });
        }
        while let Some(guard) = busy.join_next().await {
            held.push(guard.expect("it runs"));
        }
        eventually(PROMPT, "a renewal", || async {
            bed.expires_in("busy 0") > TTL * 9 / 10
        })
        .await;
        for _ in 0..3 {
            silence_all_so_far(&bed);
            sleep(TTL).await;
            let lost = held.iter().filter(|guard| !guard.is_held()).count();
            assert_eq!(lost, 0, "lost although the server could be reached");
            let request = request("another", Mode::Exclusive, TTL);
            // The answer to this take may be lost with a silent connection.
            drop(take(&locks, &request).await);
        }
    });
}

/// For example behind the address of a failed host, whose successor has no such transaction.
#[test]
fn a_row_lock_whose_connection_died_silently_together_with_its_server_is_told_soon() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(30);
        for vendor in SqlVendor::available() {
            let bed = Bed::new(vendor);
            let locks = bed.client(MySqlHold::Row).await;
            let others = bed.direct(MySqlHold::Row).await;
            let request = request("k", Mode::Exclusive, TTL);
            let held = take(&locks, &request).await;
            silence_all_so_far(&bed);
            bed.server.restart();
            let next = take(&others, &request).await;
            let told = timeout(Duration::from_secs(3), held.lost()).await;
            assert_eq!(told.expect("far sooner than its ttl"), LossReason::Removed);
            assert!(next.is_held());
        }
    });
}

/// The server lives and has the connection, so no other client gets the row.
#[test]
fn a_row_lock_outlives_heartbeats_that_are_late() {
    steady(async || {
        // The ttls differ, so that some answers arrive while a renewal waits for them, and some
        // while none does. The shortest may not wait as long as the others for their answers.
        const TTLS: [u64; 12] = [25, 80, 83, 86, 89, 92, 95, 98, 101, 104, 107, 110];
        let bed = Bed::new(SqlVendor::MariaDb);
        let locks = bed.client(MySqlHold::Row).await;
        let mut held = Vec::new();
        for tenths in TTLS {
            let ttl = Duration::from_millis(tenths * 100);
            let request = request(&format!("k {tenths}"), Mode::Exclusive, ttl);
            held.push(take(&locks, &request).await);
        }
        bed.proxy
            .all()
            .to_client()
            .delay(Duration::from_millis(700));
        sleep(Duration::from_secs(12)).await;
        if let Some(guard) = held.iter().find(|guard| !guard.is_held()) {
            let (key, reason) = (guard.key(), guard.lost().await);
            panic!("{key:?} is lost although its server has its connection: {reason:?}");
        }
        bed.proxy.all().pass();
        for guard in held {
            guard.release().await.expect("it runs");
        }
    });
}
