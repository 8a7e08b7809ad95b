//! Waits on networks that fail: a waiter keeps its place, and no wake-up is lost.

use std::time::Duration;

use lock_core::{DistributedLock, Mode};
use lock_testkit::steady;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::PROMPT;
use crate::bed::{Bed, request, take};

#[test]
fn a_waiter_keeps_its_place_over_lost_connections() {
    steady(async || {
        let bed = Bed::new().await;
        let (locks, others) = (bed.client().await, bed.direct().await);
        let wanted = || request("k", Mode::Exclusive);
        let guard = take(&others, wanted()).await;
        let (mut second, mut third) = (JoinSet::new(), JoinSet::new());
        second.spawn(async move { locks.acquire(wanted()).await });
        bed.has("k", 2).await;
        let late = others.clone();
        third.spawn(async move { late.acquire(wanted()).await });
        bed.has("k", 3).await;
        for _ in 0..5 {
            bed.proxy.all().reset();
            sleep(Duration::from_millis(300)).await;
        }
        assert_eq!(bed.claims("k").await.len(), 3, "it came once more");
        guard.release().await.unwrap();
        let next = timeout(PROMPT, second.join_next()).await;
        let next = next.expect("it is its turn").unwrap().unwrap();
        assert!(third.try_join_next().is_none(), "the third has overtaken");
        next.unwrap().expect("no end").release().await.unwrap();
        let last = timeout(PROMPT, third.join_next()).await;
        let last = last.expect("it is its turn").unwrap().unwrap();
        last.unwrap().expect("no end").release().await.unwrap();
    });
}

#[test]
fn a_release_while_the_connection_is_cut_wakes_the_waiter_all_the_same() {
    steady(async || {
        let bed = Bed::new().await;
        let (locks, others) = (bed.client().await, bed.direct().await);
        let wanted = || request("k", Mode::Exclusive);
        for round in 0..30 {
            let guard = take(&others, wanted()).await;
            let mut waiting = JoinSet::new();
            let waiter = locks.clone();
            waiting.spawn(async move { waiter.acquire(wanted()).await });
            bed.has("k", 2).await;
            // The rounds cover releases before, during and after the time without a connection.
            bed.proxy.all().cut();
            sleep(Duration::from_micros(round * 400)).await;
            guard.release().await.unwrap();
            let woken = timeout(PROMPT / 2, waiting.join_next()).await;
            let woken = woken.unwrap_or_else(|_| panic!("round {round} was not woken"));
            let guard = woken.unwrap().unwrap().unwrap().expect("no end");
            guard.release().await.unwrap();
        }
    });
}
