//! How long a holder that was killed is in the way.

use std::time::Duration;

use lock_core::{DistributedLock, LockRequest, Mode, Wait};
use tokio::time::{Instant, timeout};

use super::{Child, Role};

/// Kills a child that holds what `request` asks for on `store`, and returns how long after that `locks` get the key.
///
/// # Panics
///
/// When that takes longer than twice the ttl and the lock delay, or the token is no greater.
pub async fn granted_after_a_kill(
    locks: &impl DistributedLock,
    store: impl Into<String>,
    request: &LockRequest,
) -> Duration {
    let mut child = Child::start(store, request, Role::Hold);
    let token = child.token();
    child.kill();
    let killed = Instant::now();
    let mut next = request.clone().with_wait(Wait::Forever);
    next.mode = Mode::Exclusive;
    let limit = 2 * (request.ttl() + request.lock_delay());
    let next = timeout(limit, locks.acquire(next)).await;
    let next = next.expect("a killed holder is waited out");
    let next = next.expect("the store runs").expect("no end");
    assert!(next.token().value() > token);
    let took = killed.elapsed();
    next.release().await.expect("the store runs");
    took
}
