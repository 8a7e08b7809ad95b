//! Several keys under one guard.

use lock_core::backend::Released;
use lock_core::{LockKey, LockRequest, LossReason, MemoryLock, Wait};

use crate::support::{MOMENT, TTL, client, eventually};

#[test]
fn sets_are_taken_whole_or_not_at_all() {
    let store = MemoryLock::new();
    let locks = client(&store);
    let set = locks.lock_all(["b", "a", "b"]).unwrap();
    let keys: Vec<_> = set.keys().map(LockKey::as_str).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(set.token("a"), set.tokens().next().map(|(_, token)| token));
    assert!(set.is_held() && set.remaining() > MOMENT);
    assert!(locks.try_lock_all(["b", "c"]).unwrap().is_none());
    assert!(locks.lock_all_within(["b", "c"], MOMENT).unwrap().is_none());
    assert_eq!(store.claims().len(), 2, "only the set");
    assert_eq!(set.wait_lost_within(MOMENT), None);
    assert_eq!(set.release().unwrap(), Released::Released);

    let requests = ["a", "b"].map(|key| LockRequest::exclusive(key).unwrap().with_ttl(TTL));
    let set = locks
        .acquire_all(requests, Wait::No)
        .unwrap()
        .expect("free");
    let second = LockKey::new("b").unwrap();
    assert!(store.evict(&second));
    assert_eq!(set.wait_lost(), (&second, LossReason::Removed));
    assert!(!set.is_held());
    drop(set);
    eventually("no claim is left", || store.claims().is_empty());
}
