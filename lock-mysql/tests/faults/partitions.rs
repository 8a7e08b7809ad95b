//! Connections that die without a word, while new ones can be opened.

use std::time::Duration;

use lock_core::Mode;
use lock_mysql::MySqlHold;
use lock_testkit::servers::SqlVendor;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::PROMPT;
use crate::bed::{Bed, request, take};

/// Nothing travels any more on the connections that there are.
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
            // So that there are as many connections as there may be.
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
            // Its answer may be one of those that do not arrive.
            drop(take(&locks, &request).await);
        }
    });
}
