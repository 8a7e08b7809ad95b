//! The role of a holder that is stopped for longer than its ttl, and then continues.

use std::thread::park_timeout;
use std::time::Duration;

use lock_core::LockGuard;
use lock_core::backend::{Clock, Moment};
use tokio::runtime::Runtime;

use super::parent::Parent;

/// Checks the guard all the time, and sends its first answers after the process was stopped.
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
    // After the nudge, attempt the late write.
    parent.wait_for_nudge();
    parent.say(guard.token());
    let released = runtime.block_on(guard.release());
    parent.say(format!("{:?}", released.expect("the store runs")));
}

/// Returns the first answer of the guard after the process was stopped for longer than the ttl.
///
/// The parent may stop the process at any time after it got the token, which was after `taken`.
fn first_look(guard: &LockGuard, taken: Moment, ttl: Duration) -> bool {
    let mut before = taken;
    loop {
        let held = guard.is_held();
        let now = Clock::Boot.now();
        if now.since(before) > ttl {
            // The process was stopped between the check and the clock, or before the check. Only
            // the next check is certainly after the stop.
            return guard.is_held();
        }
        assert!(held, "lost while it was not stopped");
        before = now;
        park_timeout(Duration::from_millis(1));
    }
}
