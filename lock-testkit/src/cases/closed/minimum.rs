//! A key stays closed for its minimum hold, whatever becomes of its holder.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{LockRequest, LossReason, Mode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::assert_excluded;
use crate::bench::Bench;
use crate::cases::shutdown::shut_down;
use crate::client::{Client, release};
use crate::join::join_all;
use crate::run::assert_refused;

/// A minimum hold so long that a case fails if it waits for it.
const LONG: Duration = Duration::from_secs(30);

/// Creates two requests: one with a minimum hold longer than its ttl, which a store that only knows
/// the ttl cuts, and one with a shorter minimum hold, for which the store has to shorten the hold.
fn requests(bench: &Bench, key: &str, mode: Mode) -> [LockRequest; 2] {
    let longer = bench.brief(&format!("{key}/longer/{mode:?}"), mode);
    let shorter = bench.request(&format!("{key}/shorter/{mode:?}"), mode);
    [
        longer.holding_at_least(bench.short() * 3 / 2),
        shorter.holding_at_least(bench.short()),
    ]
}

fn much_kept(bench: &Bench, key: &str) -> LockRequest {
    let longest = bench.capabilities().longest_min_hold;
    bench.exclusive(key).holding_at_least(LONG.min(longest))
}

/// Asserts that `client` gets the key of `request`, which was granted after `began`, when its
/// minimum hold is over and not before.
pub(crate) async fn opens_in_time(
    bench: &Bench,
    client: &Client,
    request: &LockRequest,
    began: Instant,
) {
    let (key, opens) = (request.key.as_str(), began + request.min_hold());
    loop {
        let next = bench.exclusive(key).without_waiting();
        if let Some(guard) = client.acquire_briefly(next).await {
            let early = opens.saturating_duration_since(Instant::now());
            assert_excluded!(
                early.is_zero(),
                "{key:?} was opened {early:?} before its minimum hold was over"
            );
            release(guard).await;
            return;
        }
        let late = Instant::now().saturating_duration_since(opens + bench.prompt());
        assert!(
            late.is_zero(),
            "{key:?} stays closed after its minimum hold"
        );
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn what_is_given_back_stays_closed_for_its_minimum(bench: Bench) {
    let mut tasks = JoinSet::new();
    for mode in bench.modes() {
        for (is_dropped, request) in requests(&bench, "given back", mode).into_iter().enumerate() {
            let [ours, theirs] = bench.clients().await;
            let bench = bench.clone();
            tasks.spawn(async move {
                let began = Instant::now();
                let guard = ours.take(&request).await;
                match is_dropped {
                    0 => assert_eq!(release(guard).await, Released::Released),
                    _ => drop(guard),
                }
                opens_in_time(&bench, &theirs, &request, began).await;
            });
        }
    }
    join_all(tasks).await;
}

pub(crate) async fn what_is_lost_stays_closed_for_its_minimum(bench: Bench) {
    let mut tasks = JoinSet::new();
    for mode in bench.modes() {
        for request in requests(&bench, "lost", mode) {
            let [ours, theirs] = bench.clients().await;
            let bench = bench.clone();
            tasks.spawn(async move {
                let request = request.holding_at_most(bench.short() / 4);
                let began = Instant::now();
                let guard = ours.take(&request).await;
                assert_eq!(guard.lost().await, LossReason::TooLong);
                opens_in_time(&bench, &theirs, &request, began).await;
                drop(guard);
            });
        }
    }
    join_all(tasks).await;
}

pub(crate) async fn waiters_of_its_own_client_wait_for_a_minimum(bench: Bench) {
    let mut tasks = JoinSet::new();
    for mode in bench.modes() {
        for request in requests(&bench, "own", mode) {
            let [ours] = bench.clients().await;
            let bench = bench.clone();
            tasks.spawn(async move {
                let began = Instant::now();
                let guard = ours.take(&request).await;
                let mut next = request.clone();
                next.mode = Mode::Exclusive;
                let waiting = bench.line_up(&ours, &next).await;
                release(guard).await;
                let opens = began + request.min_hold();
                let served = timeout(request.min_hold() + bench.prompt(), waiting).await;
                let early = opens.saturating_duration_since(Instant::now());
                assert_excluded!(
                    early.is_zero(),
                    "{next:?} was granted {early:?} before the minimum hold was over"
                );
                let guard = served.ok().flatten().expect("it is over, so it is granted");
                // The grant of the waiter has a minimum hold of its own.
                let granted = Instant::now();
                release(guard).await;
                ours.is_refused(&next, "its minimum hold is not over").await;
                opens_in_time(&bench, &ours, &next, granted).await;
            });
        }
    }
    join_all(tasks).await;
}

pub(crate) async fn a_hold_beyond_its_minimum_is_given_back_at_once(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let minimum = Duration::from_millis(50);
    for mode in bench.modes() {
        let request = bench.request("beyond", mode).holding_at_least(minimum);
        let guard = ours.wait_for(&request).await;
        sleep(minimum * 2).await;
        release(guard).await;
        release(theirs.take(&bench.exclusive("beyond")).await).await;
    }
}

pub(crate) async fn a_renewed_hold_stays_closed_for_its_minimum(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let request = bench
        .brief("renewed", Mode::Exclusive)
        .holding_at_least(bench.short() * 2);
    let began = Instant::now();
    let guard = ours.take(&request).await;
    // Beyond two renewals.
    sleep(bench.short()).await;
    assert!(guard.is_held());
    release(guard).await;
    opens_in_time(&bench, &theirs, &request, began).await;
}

pub(crate) async fn a_lock_delay_and_a_minimum_count_both(bench: Bench) {
    let mut tasks = JoinSet::new();
    for (key, minimum) in [("delay", bench.short()), ("minimum", bench.short() * 2)] {
        let [ours, theirs] = bench.clients().await;
        let bench = bench.clone();
        tasks.spawn(async move {
            let (limit, delay) = (bench.short() / 4, bench.short());
            let request = bench
                .brief(key, Mode::Exclusive)
                .with_lock_delay(delay)
                .holding_at_most(limit)
                .holding_at_least(minimum);
            let began = Instant::now();
            let guard = ours.take(&request).await;
            assert_eq!(guard.lost().await, LossReason::TooLong);
            let both = request.holding_at_least(minimum.max(limit + delay));
            opens_in_time(&bench, &theirs, &both, began).await;
        });
    }
    join_all(tasks).await;
}

pub(crate) async fn what_was_never_held_has_no_minimum(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let request = much_kept(&bench, "never held");
    let held = theirs.take(&bench.exclusive("never held")).await;
    ours.is_refused(&request, "it is held").await;
    let waiting = bench.line_up(&ours, &request).await;
    drop(waiting);
    release(held).await;
    release(theirs.wait_for(&bench.exclusive("never held")).await).await;
}

pub(crate) async fn a_minimum_out_of_range_is_refused(bench: Bench) {
    let longest = bench.capabilities().longest_min_hold;
    for minimum in [longest + Duration::from_nanos(1), Duration::MAX] {
        let request = bench.exclusive("kept").holding_at_least(minimum);
        assert_refused(&bench, request).await;
    }
}

pub(crate) async fn the_longest_minimum_can_be_had(bench: Bench) {
    let longest = bench.capabilities().longest_min_hold;
    let client = bench.client().await;
    let request = bench.brief("kept", Mode::Exclusive);
    let guard = client.take(&request.holding_at_least(longest)).await;
    let (ttl, remaining) = (bench.short(), guard.remaining());
    assert!(
        remaining <= ttl && remaining >= ttl / 3,
        "a guard with a ttl of {ttl:?} has {remaining:?}"
    );
    assert_eq!(release(guard).await, Released::Released);
    client
        .is_refused(&bench.exclusive("kept"), "its minimum hold is not over")
        .await;
    bench.remove("kept").await;
}

pub(crate) async fn a_shutdown_keeps_a_minimum(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let began = Instant::now();
    let requests = requests(&bench, "shut down", Mode::Exclusive);
    let mut guards = Vec::new();
    for request in &requests {
        guards.push(ours.take(request).await);
    }
    release(guards.pop().expect("two")).await;
    shut_down(&ours, &bench).await;
    assert_eq!(guards[0].lost().await, LossReason::Closed);
    for request in &requests {
        let why = "its minimum hold is not over";
        theirs.is_refused(request, why).await;
    }
    for request in &requests {
        opens_in_time(&bench, &theirs, request, began).await;
    }
}
