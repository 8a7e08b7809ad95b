//! Waiters that are dropped while another task serves them.

use super::*;
use crate::MemoryLock;
use crate::backend::KeeperRuntime;
use crate::hand_off::slot::now;

/// `hand_on` takes a waiter out, finds the hold lost, which ends the queue, and puts the waiter
/// back. The waiter is dropped in between.
#[tokio::test]
async fn a_waiter_that_has_gone_is_not_put_back_as_the_driver() {
    let watchdog = Watchdog::new(KeeperRuntime::caller());
    let budget = Duration::from_secs(1);
    let queues = HandOffQueues::new(
        Arc::new(MemoryLock::new()),
        budget,
        Duration::ZERO,
        watchdog,
    );
    let queues = Arc::new(queues);
    let request = LockRequest::exclusive("k").unwrap();
    let holder = queues.arrive(&request, now(), 0);
    queues.by_key.lock().get_mut(&request.key).unwrap().hold(7);
    let waiter = queues.arrive(&request, now(), 0);
    // As `Place::next_waiter` does.
    let taken = queues
        .by_key
        .lock()
        .get_mut(&request.key)
        .unwrap()
        .next_alike(&waiter.wants);
    // As the action on the loss, when `Hold::next_turn` sees the loss.
    queues.hold_left(&request.key, 7, Duration::ZERO);
    // As another thread does in between: it drops the waiter's future.
    drop(waiter.leave());
    // As `Place::put_back` does.
    queues.put_back(taken.unwrap());
    drop(holder);
    let next = queues.arrive(&request, now(), 0);
    assert!(
        next.is_driving(),
        "waits behind nobody for ever: {queues:?}"
    );
}
