//! A store that stops answering, and answers again after a thaw.
//!
//! Holders learn of their loss before another claim is granted, no call hangs, and nothing is left.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLockExt, ErrorKind, LockGuard, LossReason, Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, SETTLE, Waiting, keeps_waiting, release};
use crate::eventually::within;

/// Maximum delay of a timer on a busy machine. Reading a clock has no delay.
const TIMER_DELAY: Duration = Duration::from_millis(250);

pub(crate) async fn a_frozen_store_ends_holds_in_time(bench: Bench) {
    let client = bench.client().await;
    let ttl = bench.short();
    let mut guards = Vec::new();
    for mode in bench.modes() {
        let request = bench.brief(&format!("frozen/{mode:?}"), mode);
        guards.push(client.take(&request).await);
    }
    sleep(ttl.mul_f64(bench.random(0).f64())).await;
    let before = Instant::now();
    let remaining: Vec<Duration> = guards.iter().map(LockGuard::remaining).collect();
    if !bench.freeze().await {
        return;
    }
    // Every renewal that is confirmed from now on was sent before.
    let last_sent = Instant::now();
    for (guard, remaining) in guards.iter().zip(remaining) {
        let reason = lost_in_time(guard, last_sent + ttl).await;
        assert_eq!(reason, LossReason::Expired);
        let held_for = before.elapsed();
        assert!(
            held_for + Duration::from_millis(20) >= remaining,
            "{guard:?} was given up after {held_for:?} although {remaining:?} remained"
        );
    }
    bench.thaw().await;
    for guard in guards {
        let release = within(
            2 * bench.prompt(),
            "a release after the loss",
            guard.release(),
        );
        let released = release.await.expect("the release is confirmed");
        assert_eq!(released, Released::AlreadyLost);
    }
}

/// Waits for the loss of a hold that must not be held after `end`.
async fn lost_in_time(guard: &LockGuard, end: Instant) -> LossReason {
    let mut lost = std::pin::pin!(guard.lost());
    loop {
        let now = Instant::now();
        assert_excluded!(
            !(end < now && guard.is_held()),
            "still held {:?} after its last renewal had expired",
            now - end
        );
        let told = timeout(Duration::from_millis(5), &mut lost).await;
        if let Ok(reason) = told {
            let late = Instant::now().saturating_duration_since(end);
            assert!(
                late < TIMER_DELAY,
                "told {late:?} after its last renewal had expired"
            );
            assert_excluded!(!guard.is_held(), "lost, and says that it is held");
            return reason;
        }
        let late = now.saturating_duration_since(end);
        assert!(
            late < TIMER_DELAY,
            "not told {late:?} after its last renewal had expired"
        );
    }
}

pub(crate) async fn with_lock_stops_frozen_work(bench: Bench) {
    let locks = bench.client().await.locks();
    let freezer = bench.clone();
    let frozen = std::sync::OnceLock::new();
    let work = locks.with_lock(bench.brief("frozen", Mode::Exclusive), async |held| {
        if freezer.freeze().await {
            frozen.get_or_init(Instant::now);
            let end = Instant::now() + freezer.short();
            while held.is_held() {
                assert!(
                    Instant::now() < end + TIMER_DELAY,
                    "still at work after a ttl"
                );
                sleep(Duration::from_millis(5)).await;
            }
            std::future::pending::<()>().await;
        }
    });
    let limit = bench.short() + bench.prompt();
    let outcome = within(limit, "work stopped on a frozen store", work).await;
    let Some(frozen) = frozen.get() else { return };
    let took = frozen.elapsed();
    assert!(
        took < bench.short() + TIMER_DELAY,
        "the work was stopped after {took:?}"
    );
    let error = outcome.expect_err("the lock was lost");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
}

pub(crate) async fn a_short_freeze_loses_nothing(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let request = bench.brief("kept", Mode::Exclusive);
    let guard = ours.take(&request).await;
    // The remaining time counts, which may be less than the ttl. Renewals come every third of it,
    // so more than half remains at any time. That suffices for the freeze, and for a busy store to
    // answer again.
    let freeze = guard.remaining() * 2 / 5;
    let mut random = bench.random(0);
    for _ in 0..3 {
        sleep(bench.short().mul_f64(0.4 + 0.4 * random.f64())).await;
        if !bench.freeze().await {
            return;
        }
        sleep(freeze).await;
        bench.thaw().await;
        assert!(guard.is_held(), "lost by a freeze of {freeze:?}");
    }
    sleep(bench.short()).await;
    assert!(guard.is_held(), "lost after freezes of {freeze:?}");
    theirs.is_refused_beside(&guard, &request).await;
    assert_eq!(release(guard).await, Released::Released);
}

pub(crate) async fn everything_works_after_a_thaw(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let stalled = ours.take(&bench.brief("thawed", Mode::Exclusive)).await;
    let patient = (theirs.clone(), bench.clone());
    let waiting = async move { Some(persist(&patient.0, &patient.1, "thawed").await) };
    let mut waiting: Waiting = Box::pin(waiting);
    keeps_waiting(&mut waiting, SETTLE).await;
    if !bench.freeze().await {
        return;
    }
    keeps_waiting(&mut waiting, bench.short() * 3 / 2).await;
    bench.thaw().await;
    let limit = 2 * bench.prompt();
    let next = within(limit, "the waiter served after a thaw", waiting).await;
    let next = next.expect("it persists");
    assert_excluded!(!stalled.is_held(), "two clients hold it after a thaw");
    assert!(next.token() > stalled.token());
    drop(stalled);
    assert!(next.is_held());
    release(next).await;
    for client in [&ours, &theirs, &bench.client().await] {
        let using = persist(client, &bench, "thawed");
        release(within(limit, "a thawed store in use", using).await).await;
    }
}

/// Acquires a lock, and tries again while the store is unreachable.
async fn persist(client: &Client, bench: &Bench, key: &str) -> LockGuard {
    let locks = client.locks();
    loop {
        let request = bench.exclusive(key).with_wait(Wait::Forever);
        match locks.acquire(request).await {
            Ok(guard) => return guard.expect("no end"),
            Err(error) if error.is_retryable() => sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("a store that does not answer is unavailable, not: {error:?}"),
        }
    }
}

pub(crate) async fn waits_end_on_a_frozen_store(bench: Bench) {
    const LIMIT: Duration = Duration::from_millis(300);
    let client = bench.client().await;
    // Connect before the freeze, so that the case is not about connecting.
    drop(client.take(&bench.exclusive("warm")).await);
    let locks = client.locks();
    if !bench.freeze().await {
        return;
    }
    for (wait, limit) in [
        (Wait::within(LIMIT), LIMIT + Duration::from_secs(1)),
        (Wait::No, 2 * bench.prompt()),
    ] {
        let request = bench.exclusive("frozen").with_wait(wait);
        let what = format!("an answer to {wait:?} on a frozen store");
        match within(limit, &what, locks.acquire(request)).await {
            Ok(Some(_)) => assert_excluded!(false, "granted by a store that does not answer"),
            Ok(None) => panic!("called held by a store that does not answer"),
            Err(error) => assert!(error.is_retryable(), "not unavailable: {error:?}"),
        }
    }
}

pub(crate) async fn what_is_dropped_on_a_frozen_store_is_undone(bench: Bench) {
    let client = bench.client().await;
    let dropped = client.take(&bench.exclusive("dropped")).await;
    let releasing = client.take(&bench.exclusive("releasing")).await;
    if !bench.freeze().await {
        return;
    }
    drop(dropped);
    let mut acquiring = JoinSet::new();
    for number in 0..20 {
        let request = bench.exclusive(&format!("cancelled/{number}"));
        let locks = client.locks();
        acquiring.spawn(async move { drop(locks.acquire(request).await) });
    }
    let release = timeout(Duration::from_millis(100), releasing.release()).await;
    assert!(
        !matches!(release, Ok(Ok(_))),
        "a store that does not answer confirmed a release: {release:?}"
    );
    acquiring.shutdown().await;
    bench.thaw().await;
    // Wait until the last request that was on its way has arrived.
    sleep(Duration::from_millis(200)).await;
    bench.nothing_is_left().await;
}
