//! An operator removes a hold: no guard can know it at once, but the holder learns of it soon.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{LossReason, Mode};
use tokio::task::JoinSet;

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::release;
use crate::eventually::within;
use crate::join::join_all;

/// Returns a renewal interval, plus time for a busy machine to renew.
fn notice(bench: &Bench) -> Duration {
    bench.short() / 3 + Duration::from_millis(500)
}

pub(crate) async fn a_removal_is_noticed(bench: Bench) {
    let client = bench.client().await;
    for mode in bench.modes() {
        let guard = client.take(&bench.brief("removed", mode)).await;
        if !bench.remove("removed").await {
            return;
        }
        let what = "a holder told that its hold was removed";
        let reason = within(notice(&bench), what, guard.lost()).await;
        assert_eq!(reason, LossReason::Removed);
        assert_excluded!(!guard.is_held(), "lost, and says that it is held");
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert_eq!(release(guard).await, Released::AlreadyLost);
    }
}

pub(crate) async fn every_watcher_hears_of_a_loss(bench: Bench) {
    let client = bench.client().await;
    let guard = Arc::new(client.take(&bench.brief("removed", Mode::Exclusive)).await);
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (guard, watch) = (Arc::clone(&guard), guard.watch());
        tasks.spawn(async move { guard.lost().await });
        tasks.spawn(async move { watch.lost().await });
    }
    tokio::task::yield_now().await;
    if !bench.remove("removed").await {
        return;
    }
    let what = "all of 16 watchers told of the loss";
    let reasons = within(notice(&bench), what, join_all(tasks)).await;
    assert_eq!(reasons, [LossReason::Removed; 16]);
    // A later call returns the same reason, and a new holder changes nothing.
    let next = client.wait_for(&bench.exclusive("removed")).await;
    for _ in 0..2 {
        assert_eq!(guard.lost().await, LossReason::Removed);
        assert_excluded!(!guard.is_held(), "a lost hold came back");
    }
    assert!(next.is_held());
}

pub(crate) async fn with_lock_stops_removed_work(bench: Bench) {
    use lock_core::{DistributedLockExt, ErrorKind};

    let locks = bench.client().await.locks();
    let request = bench.brief("removed", Mode::Exclusive);
    let remover = bench.clone();
    let work = locks.with_lock(request, async move |_| {
        if remover.remove("removed").await {
            std::future::pending::<()>().await;
        }
    });
    let outcome = within(notice(&bench), "work stopped after a removal", work).await;
    if bench.missing().is_none() {
        let error = outcome.expect_err("the lock was lost");
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    }
}
