//! A client that is shut down leaves nothing behind, and sends nothing any more.

use std::time::Duration;

use lock_core::{ErrorKind, LockGuard, LockRequest, LossReason, Wait};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, SETTLE, release};
use crate::eventually::within;
use crate::join::join_all;

pub(super) async fn shut_down(client: &Client, bench: &Bench) {
    let locks = client.locks();
    let shutdown = locks.shutdown(bench.prompt());
    let outcome = within(2 * bench.prompt(), "the end of a shutdown", shutdown).await;
    if let Err(error) = outcome {
        panic!("a shutdown on a store that answers was not confirmed: {error:?}");
    }
}

fn assert_closed(outcome: lock_core::Result<Option<LockGuard>>, when: &str) {
    match outcome {
        Err(error) if error.kind() == ErrorKind::Closed => {}
        other => panic!("an acquisition {when} a shutdown has to end as closed: {other:?}"),
    }
}

pub(crate) async fn a_shutdown_gives_everything_back(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let mut guards = Vec::new();
    for (number, mode) in bench.modes().into_iter().enumerate() {
        let request = bench.request(&format!("held/{number}"), mode);
        guards.push((ours.take(&request).await, request));
    }
    let kept = theirs.take(&bench.exclusive("kept")).await;
    shut_down(&ours, &bench).await;
    assert!(kept.is_held(), "lost by the shutdown of another client");
    for (guard, request) in &guards {
        assert_excluded!(
            !guard.is_held(),
            "{guard:?} says it is held after a shutdown"
        );
        assert_eq!(guard.lost().await, LossReason::Closed, "{guard:?}");
        // The shutdown has confirmed the release, so the key is free at once.
        release(theirs.take(request).await).await;
    }
    // Later drops of the guards of the ended client do not affect other clients.
    let (ended, request) = guards.pop().expect("one of each mode");
    let next = theirs.take(&request).await;
    drop((guards, ended));
    sleep(SETTLE).await;
    assert!(
        next.is_held(),
        "freed by a guard of a client that was shut down"
    );
    release(next).await;
    release(kept).await;
}

pub(crate) async fn a_thousand_holds_are_shut_down_together(bench: Bench) {
    let client = bench.client().await;
    let mut takes = JoinSet::new();
    for number in 0..1000 {
        let (client, request) = (
            client.clone(),
            bench
                .exclusive(&format!("one of many/{number}"))
                .with_wait(Wait::Forever),
        );
        // The limit below is for all of them together.
        takes.spawn(async move { client.acquire(request).await.expect("it is free") });
    }
    let guards = within(
        12 * bench.prompt(),
        "a thousand keys taken",
        join_all(takes),
    )
    .await;
    shut_down(&client, &bench).await;
    let left = bench.residue().await;
    assert!(
        left.is_empty(),
        "{} left after a confirmed shutdown",
        left.len()
    );
    assert_excluded!(guards.iter().all(|guard| !guard.is_held()));
}

pub(crate) async fn a_shutdown_cuts_acquisitions_off(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let holder = theirs.take(&bench.exclusive("held")).await;
    let waiting = |request: LockRequest| {
        let locks = ours.locks();
        async move { locks.acquire(request).await }
    };
    let mut waits = JoinSet::new();
    for _ in 0..20 {
        waits.spawn(waiting(bench.exclusive("held").with_wait(Wait::Forever)));
        let limit = Duration::from_secs(30);
        waits.spawn(waiting(bench.exclusive("held").waiting_at_most(limit)));
    }
    // The waiters are in the queue, as far as a test can observe that.
    assert!(timeout(SETTLE, waits.join_next()).await.is_err());
    shut_down(&ours, &bench).await;
    let outcomes = within(bench.prompt(), "the end of 40 waits", join_all(waits)).await;
    for outcome in outcomes {
        assert_closed(outcome, "during");
    }
    for wait in [Wait::No, Wait::Forever] {
        let request = bench.exclusive("free").with_wait(wait);
        let late = within(
            bench.prompt(),
            "an answer after a shutdown",
            waiting(request),
        )
        .await;
        assert_closed(late, "after");
    }
    release(holder).await;
    bench.nothing_is_left().await;
}

pub(crate) async fn a_shutdown_at_any_moment_leaves_nothing(bench: Bench) {
    let mut random = bench.random(0);
    for round in 0..10 {
        let client = bench.client().await;
        let mut acquisitions = JoinSet::new();
        for number in 0..20 {
            let (locks, modes) = (client.locks(), bench.modes());
            let key = format!("round {round}/{}", number % 4);
            let request = bench.request(&key, modes[number % modes.len()]);
            acquisitions
                .spawn(async move { locks.acquire(request.with_wait(Wait::Forever)).await });
        }
        sleep(Duration::from_micros(random.u64(0..3000))).await;
        shut_down(&client, &bench).await;
        let outcomes = join_all(acquisitions);
        for outcome in within(bench.prompt(), "the end of 20 acquisitions", outcomes).await {
            match outcome {
                Ok(Some(guard)) => assert_excluded!(!guard.is_held(), "{guard:?} after a shutdown"),
                outcome => assert_closed(outcome, "during"),
            }
        }
        bench.nothing_is_left().await;
    }
}
