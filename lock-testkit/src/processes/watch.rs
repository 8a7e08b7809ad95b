//! A holder that stands still for longer than its lease, and goes on as if nothing had happened.

use std::thread::park_timeout;
use std::time::Duration;

use lock_core::LockGuard;
use lock_core::backend::{Clock, Moment};
use tokio::runtime::Runtime;

use super::parent::Parent;

/// Looks at its guard all the time, and tells what it sees first after it stood still.
pub(super) fn watch(
    parent: &Parent,
    runtime: &Runtime,
    guard: LockGuard,
    taken: Moment,
    ttl: Duration,
) {
    parent.say(first_look(&guard, taken, ttl));
    let told = async {
        let at_once = tokio::time::timeout(Duration::ZERO, guard.lost());
        at_once.await.is_ok()
    };
    parent.say(runtime.block_on(told));
    parent.say(guard.remaining().is_zero());
    // What it was about to write, and when it gets round to it.
    parent.wait_for_nudge();
    parent.say(guard.token());
    let released = runtime.block_on(guard.release());
    parent.say(format!("{:?}", released.expect("the store runs")));
}

/// The parent may stop this process any time after it was told the token, which was after `taken`.
fn first_look(guard: &LockGuard, taken: Moment, ttl: Duration) -> bool {
    let mut before = taken;
    loop {
        let held = guard.is_held();
        let now = Clock::Boot.now();
        if now.since(before) > ttl {
            // Stopped between the look and the clock, or before the look: only the next look is
            // certainly one after the stop.
            return guard.is_held();
        }
        assert!(held, "lost while it was not stopped");
        before = now;
        park_timeout(Duration::from_millis(1));
    }
}
