//! What applications send between threads can be sent, checked by the compiler.

use std::sync::Arc;
use std::time::Duration;

use polylock::{
    Config, DistributedLock, DistributedLockExt, Error, HoldWatch, LockGuard, LockRequest,
    MemoryLock,
};

fn is_shareable<T: Send + Sync + 'static>() {}

fn is_sendable<T: Send>(_: &T) {}

#[test]
fn types_are_send_and_sync() {
    is_shareable::<Arc<dyn DistributedLock>>();
    is_shareable::<LockGuard>();
    is_shareable::<HoldWatch>();
    is_shareable::<LockRequest>();
    is_shareable::<MemoryLock>();
    is_shareable::<Config>();
    is_shareable::<Error>();
}

#[tokio::test]
async fn futures_can_be_spawned() {
    let locks: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
    is_sendable(&locks.lock("k"));
    is_sendable(&locks.try_lock_shared("k"));
    is_sendable(&locks.permit_within("k", 2, Duration::ZERO));
    is_sendable(&polylock::connect("memory://"));
    let request = LockRequest::exclusive("k").unwrap();
    is_sendable(&locks.with_lock(request.clone(), async |held: HoldWatch| held.is_held()));

    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let held = locks
            .with_lock(request, async |held: HoldWatch| held.is_held())
            .await;
        let guard = locks.lock("k").await;
        let (reason, released) = (guard.is_ok(), held);
        (reason, released.is_ok_and(|held| held == Some(true)))
    });
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), (true, true));
}
