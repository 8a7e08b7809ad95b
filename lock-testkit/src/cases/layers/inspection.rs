//! Every client sees who holds a key.

use lock_core::{DistributedLockExt, HolderInfo, KeyInfo, LockGuard, LockRequest, Mode};

use crate::bench::{Bench, permit};
use crate::client::{Client, release};
use crate::eventually::within;

pub(crate) async fn seen(bench: &Bench, client: &Client, key: &str) -> KeyInfo {
    let locks = client.locks();
    let answer = within(bench.prompt(), "an inspection", locks.inspect(key)).await;
    answer.unwrap_or_else(|error| panic!("an inspection of {key:?} failed: {error:?}"))
}

/// Returns the holder whose token is that of `guard`.
fn holder_of(info: &KeyInfo, guard: &LockGuard) -> HolderInfo {
    let holders = info.holders.iter();
    let mut of_guard = holders.filter(|holder| holder.token == Some(guard.token()));
    let holder = of_guard.next();
    let holder = holder.unwrap_or_else(|| panic!("{guard:?} is not among the holders: {info:?}"));
    holder.clone()
}

fn labelled(bench: &Bench, key: &str, mode: Mode, label: &str) -> LockRequest {
    bench.request(key, mode).labelled(label).expect("a label")
}

pub(crate) async fn a_holder_is_seen_by_another_client(bench: Bench) {
    let [holder, other] = bench.clients().await;
    for mode in bench.modes() {
        let key = format!("seen/{mode:?}");
        let request = labelled(&bench, &key, mode, "nightly report: №1 = 50 %");
        let guard = holder.take(&request).await;
        let info = seen(&bench, &other, &key).await;
        assert_eq!(info.holders.len(), 1, "there is one holder: {info:?}");
        let found = holder_of(&info, &guard);
        assert_eq!(
            found.label.as_deref(),
            request.label(),
            "the label: {found:?}"
        );
        assert_eq!(found.pid, Some(std::process::id()), "{found:?}");
        assert!(found.host.is_some() && found.since.is_some(), "{found:?}");
        assert_eq!(found.mode, Some(mode), "the mode: {found:?}");
        assert!(!found.foreign, "{found:?}");
        let left = found.ttl_left.unwrap_or(request.ttl());
        // A store with whole seconds may give more than the ttl.
        let most = request.ttl() * 2;
        assert!(
            !left.is_zero() && left <= most,
            "the rest of the ttl: {found:?}"
        );
        release(guard).await;
        // A hold without a label is not shown with that of an earlier one.
        let guard = holder.wait_for(&bench.request(&key, mode)).await;
        let info = seen(&bench, &other, &key).await;
        assert_eq!(holder_of(&info, &guard).label, None, "{info:?}");
        release(guard).await;
    }
}

pub(crate) async fn nobody_is_seen_after_a_release(bench: Bench) {
    let [holder, other] = bench.clients().await;
    for mode in bench.modes() {
        let key = format!("released/{mode:?}");
        let info = seen(&bench, &other, &key).await;
        assert!(info.holders.is_empty(), "no holder was there: {info:?}");
        let guard = holder.take(&bench.request(&key, mode)).await;
        let info = seen(&bench, &other, &key).await;
        assert_eq!(info.holders.len(), 1, "it is held: {info:?}");
        release(guard).await;
        let info = seen(&bench, &other, &key).await;
        assert!(info.holders.is_empty(), "the holder has released: {info:?}");
    }
}

pub(crate) async fn all_holders_of_a_key_are_seen(bench: Bench) {
    let [first, second, other] = bench.clients().await;
    for mode in [Mode::Shared, permit(2)] {
        if !bench.modes().contains(&mode) {
            continue;
        }
        let key = format!("all/{mode:?}");
        let one = first.take(&labelled(&bench, &key, mode, "one")).await;
        let two = second.take(&labelled(&bench, &key, mode, "two")).await;
        let info = seen(&bench, &other, &key).await;
        assert_eq!(info.holders.len(), 2, "there are two holders: {info:?}");
        for (guard, label) in [(&one, "one"), (&two, "two")] {
            let found = holder_of(&info, guard);
            assert_eq!(found.label.as_deref(), Some(label), "{info:?}");
            assert_eq!(found.mode, Some(mode), "{info:?}");
        }
        release(one).await;
        let info = seen(&bench, &other, &key).await;
        assert_eq!(info.holders.len(), 1, "one holder is left: {info:?}");
        assert_eq!(holder_of(&info, &two).label.as_deref(), Some("two"));
        release(two).await;
    }
}

pub(crate) async fn a_waiter_is_no_holder(bench: Bench) {
    let [holder, waiter, other] = bench.clients().await;
    let guard = holder.take(&bench.exclusive("queue")).await;
    let info = seen(&bench, &other, "queue").await;
    assert!(
        matches!(info.waiters, None | Some(0)),
        "nobody waits: {info:?}"
    );
    let request = labelled(&bench, "queue", Mode::Exclusive, "waiter");
    let waiting = bench.line_up(&waiter, &request).await;
    let info = seen(&bench, &other, "queue").await;
    assert_eq!(info.holders.len(), 1, "a waiter holds nothing: {info:?}");
    assert_eq!(holder_of(&info, &guard).label, None, "{info:?}");
    assert!(
        matches!(info.waiters, None | Some(1)),
        "one waits: {info:?}"
    );
    release(guard).await;
    let next = waiter.served(waiting, "a waiter served").await;
    let info = seen(&bench, &other, "queue").await;
    assert_eq!(holder_of(&info, &next).label.as_deref(), Some("waiter"));
    release(next).await;
}
