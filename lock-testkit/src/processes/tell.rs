//! The role that reports, after each nudge, whether the lock is held.

use std::time::SystemTime;

use lock_core::LockGuard;

use super::parent::Parent;

/// Sends the wall clock and whether the lock is held after each nudge, until the process ends.
pub(super) fn tell(parent: &Parent, guard: &LockGuard) {
    loop {
        parent.wait_for_nudge();
        let wall = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        parent.say(format!("{} {}", wall.as_secs(), guard.is_held()));
    }
}
