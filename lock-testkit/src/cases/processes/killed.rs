//! Killed holders and waiters in other processes, and programs that abort.

use std::time::Duration;

use lock_core::{LockGuard, LockRequest, Mode, Wait};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, sleep, timeout};

use super::SLACK;
use crate::assert_excluded;
use crate::bench::{Bench, permit};
use crate::cases::minimum::opens_in_time;
use crate::client::{Client, SETTLE, Waiting, keeps_waiting, keeps_waiting_until, release};
use crate::eventually::{eventually, within};
use crate::join::join_all;
use crate::processes::{Ending, Flavor, Role};

pub(crate) async fn a_killed_holder_blocks_for_its_ttl_and_no_longer(bench: Bench) {
    let client = bench.client().await;
    let mut tasks = JoinSet::new();
    for mode in bench.modes() {
        let (bench, client) = (bench.clone(), client.clone());
        tasks.spawn(async move {
            let request = bench.brief(&format!("killed/{mode:?}"), mode);
            let (mut child, token) = bench.holder(&request, Role::Hold);
            let mut waiting = writer_behind(&bench, &client, &request);
            let early = timeout(bench.short() * 3 / 2, &mut waiting).await;
            assert!(early.is_err(), "a living holder is renewed: {early:?}");
            block_in_place(|| child.kill());
            frees_by_its_ttl(&bench, &request, waiting, token).await;
        });
    }
    join_all(tasks).await;
}

pub(crate) async fn a_killed_holder_keeps_its_key_closed_for_its_lock_delay(bench: Bench) {
    let client = bench.client().await;
    let mut tasks = JoinSet::new();
    for mode in bench.modes() {
        let (bench, client) = (bench.clone(), client.clone());
        tasks.spawn(async move {
            // Longer than the ttl, since a store that only knows the ttl opens the key too early.
            let delay = bench.short() * 3 / 2;
            let request = bench.brief(&format!("delayed/{mode:?}"), mode);
            let request = request.with_lock_delay(delay);
            let (mut child, token) = bench.holder(&request, Role::Hold);
            block_in_place(|| child.kill());
            let waiting = writer_behind(&bench, &client, &request);
            frees_by_its_ttl(&bench, &request, waiting, token).await;
        });
    }
    join_all(tasks).await;
}

/// A store that rounds a minimum hold up opens its key this much later.
const ROUNDING: Duration = Duration::from_secs(2);

pub(crate) async fn a_killed_holder_keeps_its_key_closed_for_its_minimum(bench: Bench) {
    let client = bench.client().await;
    let mut tasks = JoinSet::new();
    for mode in bench.modes() {
        let (bench, client) = (bench.clone(), client.clone());
        tasks.spawn(async move {
            // Longer than the ttl, since a store that only knows the ttl opens the key too early.
            let request = bench.brief(&format!("kept/{mode:?}"), mode);
            let request = request.holding_at_least(bench.short() * 3 / 2);
            let began = Instant::now();
            let (mut child, _) = bench.holder(&request, Role::Hold);
            block_in_place(|| child.kill());
            let killed = Instant::now();
            opens_in_time(&bench, &client, &request, began).await;
            let took = killed.elapsed();
            let limit = request.min_hold() * 4 / 3 + ROUNDING + SLACK;
            assert!(took < limit, "{mode:?}: open only {took:?} after the kill");
        });
    }
    join_all(tasks).await;
}

pub(crate) async fn a_program_that_ends_keeps_its_key_closed_for_its_minimum(bench: Bench) {
    let client = bench.client().await;
    let request = bench.brief("ended", Mode::Exclusive);
    let request = request.holding_at_least(bench.short() * 3 / 2);
    let began = Instant::now();
    let role = Role::End(Flavor::MultiThread, Ending::MainAfterDrop);
    let (mut child, _) = bench.holder(&request, role);
    block_in_place(|| child.end());
    opens_in_time(&bench, &client, &request, began).await;
}

/// A program that is built with `panic = "abort"` runs no destructor either.
pub(crate) async fn a_program_that_aborts_blocks_for_its_ttl_and_no_longer(bench: Bench) {
    let client = bench.client().await;
    let request = bench.brief("aborted", Mode::Exclusive);
    let (mut child, token) = bench.holder(&request, Role::Abort);
    let (status, _) = block_in_place(|| child.end());
    assert!(!status.success(), "{status}");
    let waiting = writer_behind(&bench, &client, &request);
    frees_by_its_ttl(&bench, &request, waiting, token).await;
}

/// Returns an exclusive acquisition of the key of `request`, which waits without end.
fn writer_behind(bench: &Bench, client: &Client, request: &LockRequest) -> Waiting {
    let next = bench.exclusive(request.key.as_str());
    Box::pin(client.acquire(next.with_wait(Wait::Forever)))
}

/// Asserts that a waiter is granted once the ttl and the lock delay of a killed holder are over.
///
/// The grant must be no later, and no earlier than the last renewal of the holder allows.
async fn frees_by_its_ttl(bench: &Bench, request: &LockRequest, waiting: Waiting, token: u64) {
    let killed = Instant::now();
    let mode = request.mode;
    let limit = request.ttl() + request.lock_delay() + SLACK;
    let what = format!("a killed holder of {mode:?} waited out");
    let next = within(limit, &what, waiting).await.expect("no end");
    let took = killed.elapsed();
    assert_token_is_greater(&next, token);
    if bench.ends_with_connection() {
        assert!(
            took < Duration::from_secs(1),
            "{mode:?}: only after {took:?}"
        );
    } else {
        // The holder renews after a third of its ttl, and somewhat later on a busy machine.
        let least = request.ttl() / 4 + request.lock_delay();
        assert!(took > least, "{mode:?}: open {took:?} after the kill");
    }
    release(next).await;
}

fn assert_token_is_greater(next: &LockGuard, token: u64) {
    let later = next.token().value();
    assert!(later > token, "the token {later} comes after {token}");
}

pub(crate) async fn a_killed_waiter_delays_nobody_behind_it(bench: Bench) {
    let [holder, last] = bench.clients().await;
    let held = holder.take(&bench.exclusive("queue")).await;
    let before = bench.residue().await.len();
    let mut doomed = bench.child(&bench.brief("queue", Mode::Exclusive), Role::Hold);
    block_in_place(|| doomed.connects());
    let fair = bench.capabilities().fair;
    // A fair store has an entry for each waiter.
    let shows = async |more: usize, limit: Duration, what: &str| {
        let is_so = || async { bench.residue().await.len() == before + more };
        eventually(limit, what, is_so).await;
    };
    if fair {
        shows(1, bench.prompt(), "the child in the queue").await;
    } else {
        sleep(SETTLE).await;
    }
    let mut waiting = bench.line_up(&last, &bench.exclusive("queue")).await;
    block_in_place(|| doomed.kill());
    if fair {
        let gone = shows(
            1,
            bench.short() + SLACK,
            "the place of a killed waiter gone",
        );
        keeps_waiting_until(&mut waiting, gone).await;
    } else {
        keeps_waiting(&mut waiting, bench.short()).await;
    }
    release(held).await;
    let released = Instant::now();
    let what = "the waiter behind a killed one served";
    let next = last.served(waiting, what).await;
    let took = released.elapsed();
    let limit = bench.short();
    assert!(took < limit, "{what} {took:?} after the release");
    release(next).await;
}

pub(crate) async fn a_living_reader_does_not_keep_a_killed_one_alive(bench: Bench) {
    let [reader, writer] = bench.clients().await;
    // The living reader has three times the ttl, which must not extend the hold of the killed
    // reader.
    let shared = bench.brief("read", Mode::Shared);
    let living = shared.clone().with_ttl(3 * bench.short());
    let living = reader.take(&living).await;
    let (mut child, _) = bench.holder(&shared, Role::Hold);
    block_in_place(|| child.kill());
    let mut waiting = writer_behind(&bench, &writer, &shared);
    let over = bench.short() + Duration::from_secs(1);
    let early = timeout(over, &mut waiting).await;
    let beside = early.is_ok_and(|granted| granted.is_some());
    assert_excluded!(!beside || !living.is_held(), "a writer beside {living:?}");
    assert!(!beside, "a killed reader took the living one along");
    release(living).await;
    let limit = bench.short() * 3 / 2;
    let what = "the writer served, with the killed reader over long ago";
    let next = within(limit, what, waiting).await.expect("no end");
    release(next).await;
}

/// The key of all holders stays on the store, so no event notifies the waiter.
pub(crate) async fn a_killed_permit_comes_back_beside_a_living_one(bench: Bench) {
    let [holder, waiter] = bench.clients().await;
    // Renewals would make the waiter look again, so this hold has a ttl without early renewals.
    let living = holder.take(&bench.request("pool", permit(2))).await;
    let request = bench.brief("pool", permit(2));
    let (mut child, token) = bench.holder(&request, Role::Hold);
    let mut waiting: Waiting = Box::pin(waiter.acquire(request.with_wait(Wait::Forever)));
    let early = timeout(bench.short() / 4, &mut waiting).await;
    assert!(early.is_err(), "both permits are taken: {early:?}");
    block_in_place(|| child.kill());
    let limit = bench.short() + SLACK;
    let what = "the permit of a killed holder back";
    let next = within(limit, what, waiting).await.expect("no end");
    assert_token_is_greater(&next, token);
    assert!(
        living.is_held(),
        "the killed permit took the living one along"
    );
    release(next).await;
}
