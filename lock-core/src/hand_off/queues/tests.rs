//! Waiters that are dropped while another task serves them.

use super::*;
use crate::MemoryLock;
use crate::backend::KeeperRuntime;
use crate::hand_off::slot::now;

/// The waiter is dropped while `hand_on` has it. `hand_on` takes a waiter out, finds the hold lost,
/// which ends the queue, and puts the waiter back.
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
    // Place::next_waiter
    let taken = queues
        .by_key
        .lock()
        .get_mut(&request.key)
        .unwrap()
        .next_alike(waiter.wants);
    // Hold::next_turn sees the loss: the action on its loss
    queues.hold_left(&request.key, 7, Duration::ZERO);
    // Meanwhile on another thread: the waiter's future is dropped.
    drop(waiter.leave());
    // Place::put_back
    queues.put_back(taken.unwrap());
    drop(holder);
    // The next waiter is first.
    let next = queues.arrive(&request, now(), 0);
    assert!(
        next.is_driving(),
        "waits behind nobody for ever: {queues:?}"
    );
}
