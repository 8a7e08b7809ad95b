//! A lost key stays closed for its lock delay; a released key does not.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLockExt, LockRequest, LossReason, Mode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, release};
use crate::eventually::within;
use crate::join::join_all;
use crate::run::assert_refused;

/// A delay so long that a case fails if it waits for it.
const LONG: Duration = Duration::from_secs(30);

/// Creates a request with a lock delay so long that a case fails if the delay is not skipped.
fn much_delayed(bench: &Bench, key: &str, mode: Mode) -> LockRequest {
    let longest = bench.capabilities().longest_with_delay;
    let delay = LONG.min(longest.saturating_sub(bench.short()));
    bench.brief(key, mode).with_lock_delay(delay)
}

/// Creates a request with a lock delay longer than its ttl.
///
/// A store that only knows the ttl opens the key too early.
fn delayed(bench: &Bench, key: &str, mode: Mode) -> LockRequest {
    bench.brief(key, mode).with_lock_delay(delay(bench))
}

fn delay(bench: &Bench) -> Duration {
    bench.short() * 3 / 2
}

pub(crate) async fn a_lost_key_stays_closed_for_its_delay(bench: Bench) {
    let mut tasks = JoinSet::new();
    for mode in bench.modes() {
        let [ours, theirs] = bench.clients().await;
        let bench = bench.clone();
        tasks.spawn(async move {
            let key = format!("lost/{mode:?}");
            let limit = bench.short() / 4;
            let began = Instant::now();
            let request = delayed(&bench, &key, mode).holding_at_most(limit);
            let guard = ours.take(&request).await;
            assert_eq!(guard.lost().await, LossReason::TooLong);
            match mode {
                Mode::Shared => assert_eq!(release(guard).await, Released::AlreadyLost),
                Mode::Permit { .. } => std::mem::forget(guard),
                _ => drop(guard),
            }
            opens_no_earlier(&bench, &theirs, &key, began + limit + delay(&bench)).await;
        });
    }
    join_all(tasks).await;
}

/// Asserts that `client` gets the key, but not before `opens`.
async fn opens_no_earlier(bench: &Bench, client: &Client, key: &str, opens: Instant) {
    let until = opens + bench.prompt();
    loop {
        let request = bench.exclusive(key).without_waiting();
        if let Some(guard) = client.acquire_briefly(request).await {
            let early = opens.saturating_duration_since(Instant::now());
            assert_excluded!(
                early.is_zero(),
                "{key:?} was opened {early:?} before its lock delay was over"
            );
            drop(guard);
            return;
        }
        let late = Instant::now().saturating_duration_since(until);
        assert!(late.is_zero(), "{key:?} stays closed after its lock delay");
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn what_is_given_back_has_no_lock_delay(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    for mode in bench.modes() {
        let request = much_delayed(&bench, "given back", mode);
        release(ours.wait_for(&request).await).await;
        drop(theirs.wait_for(&bench.exclusive("given back")).await);
        drop(ours.wait_for(&request).await);
        drop(theirs.wait_for(&bench.exclusive("given back")).await);
    }
}

pub(crate) async fn what_was_never_held_has_no_lock_delay(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let request = much_delayed(&bench, "never held", Mode::Exclusive);
    let mut random = bench.random(0);
    for _ in 0..20 {
        // Drop the acquisition between its first request and its answer, or just after the answer.
        let acquiring = ours.acquire(request.clone().waiting_at_most(LONG));
        let given_up = timeout(Duration::from_micros(random.u64(0..3_000)), acquiring).await;
        drop(given_up);
        drop(theirs.wait_for(&bench.exclusive("never held")).await);
    }
    let held = theirs.wait_for(&bench.exclusive("never held")).await;
    let waiting = bench.line_up(&ours, &request).await;
    drop(waiting);
    release(held).await;
    drop(theirs.wait_for(&bench.exclusive("never held")).await);
}

pub(crate) async fn a_key_lost_on_a_frozen_store_stays_closed(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let delay = 2 * bench.short();
    let request = bench
        .brief("frozen", Mode::Exclusive)
        .with_lock_delay(delay);
    let guard = ours.take(&request).await;
    sleep(bench.short() / 2).await;
    if !bench.freeze().await {
        return;
    }
    // Wait for answers that are on their way.
    sleep(Duration::from_millis(20)).await;
    let ends = Instant::now() + guard.remaining();
    let what = "a holder told that its lock is lost";
    let reason = within(2 * bench.short(), what, guard.lost()).await;
    assert_eq!(reason, LossReason::Expired);
    // By now the hold has expired on a store that only knows the ttl.
    sleep(bench.short() / 4).await;
    bench.thaw().await;
    drop(guard);
    opens_no_earlier(&bench, &theirs, "frozen", ends + delay).await;
}

pub(crate) async fn a_lock_delay_out_of_range_is_refused(bench: Bench) {
    let ttl = bench.short();
    let longest = bench.capabilities().longest_with_delay;
    let shortest_too_long = longest.saturating_sub(ttl) + Duration::from_nanos(1);
    for delay in [shortest_too_long, Duration::MAX] {
        let request = bench.brief("delayed", Mode::Exclusive);
        assert_refused(&bench, request.with_lock_delay(delay)).await;
    }
}

pub(crate) async fn the_longest_lock_delay_can_be_had(bench: Bench) {
    let ttl = bench.short();
    let delay = bench.capabilities().longest_with_delay.saturating_sub(ttl);
    let client = bench.client().await;
    let request = bench.brief("delayed", Mode::Exclusive);
    let guard = client.take(&request.with_lock_delay(delay)).await;
    let remaining = guard.remaining();
    assert!(
        remaining <= ttl && remaining >= ttl / 3,
        "a guard with a ttl of {ttl:?} has {remaining:?}"
    );
    release(guard).await;
    let none = client.locks().try_lock("delayed").await;
    assert!(none.expect("it answers").is_some(), "it is given back");
}
