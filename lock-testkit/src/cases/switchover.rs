//! The server ends at once, and another server continues with all confirmed data.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{LockGuard, LockRequest, Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, SETTLE, Waiting, keeps_waiting, release};
use crate::eventually::{eventually, within};
use crate::join::join_all;

/// Maximum delay until a holder learns that its hold ended with its connection.
const HEARS_WITHIN: Duration = Duration::from_secs(1);

pub(crate) async fn a_switchover_leaves_one_holder_and_serves_the_waiter(bench: Bench) {
    let [ours, theirs, other] = bench.clients().await;
    let request = bench.brief("kept", Mode::Exclusive);
    let held = ours.take(&request).await;
    let mut waiting: Waiting = Box::pin(persist(theirs, request.clone().with_wait(Wait::Forever)));
    keeps_waiting(&mut waiting, SETTLE).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(waiting);
    if !bench.switch_over().await {
        return;
    }
    // Confirmations from before the switchover count until this time at most.
    let confirmed_until = Instant::now() + held.remaining();
    let limit = bench.short() + 2 * bench.prompt();
    let trying = persist(other, request.clone().with_wait(Wait::No));
    if let Some(beside) = within(limit, "an answer of the next server", trying).await {
        ends_behind(&bench, &held, &beside).await;
        release(beside).await;
    }
    // Either the next server renews the hold, or its holder learns of the loss.
    let settled = || async {
        let until = Instant::now() + held.remaining();
        !held.is_held() || until > confirmed_until + Duration::from_millis(20)
    };
    eventually(limit, "a hold renewed after a switchover, or lost", settled).await;
    let (was_held, token) = (held.is_held(), held.token());
    let released = held.release().await;
    if was_held && !bench.ends_with_connection() {
        let released = released.expect("the next server answers");
        assert_eq!(released, Released::Released, "renewed, and not there");
    }
    let what = "the waiter served after a switchover";
    let next = within(limit, what, join_all(tasks)).await.pop();
    let next = next.flatten().expect("no end");
    assert!(next.token() > token, "tokens go back with a switchover");
    release(next).await;
}

/// Asserts that a holder learns of its loss no later than the next client is granted the lock.
///
/// Where holds end with their connections, it learns of the loss soon afterwards.
async fn ends_behind(bench: &Bench, held: &LockGuard, beside: &LockGuard) {
    if bench.ends_with_connection() {
        let told = || async { !held.is_held() };
        eventually(
            HEARS_WITHIN,
            "a holder told of the end of its connection",
            told,
        )
        .await;
    }
    assert_excluded!(!held.is_held(), "{beside:?} beside {held:?}");
}

/// Acquires a lock, and tries again while the store is unreachable.
async fn persist(client: Client, request: LockRequest) -> Option<LockGuard> {
    loop {
        match client.locks().acquire(request.clone()).await {
            Ok(answer) => return answer,
            Err(error) if error.is_retryable() => sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("a server that is gone is unavailable, not: {error:?}"),
        }
    }
}
