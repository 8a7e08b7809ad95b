//! What a holder knows, as often as it is asked.

use std::time::SystemTime;

use lock_core::LockGuard;

use super::parent::Parent;

/// Tells what its wall clock shows and whether it holds the lock, until the process ends.
pub(super) fn tell(parent: &Parent, guard: &LockGuard) {
    loop {
        parent.wait_for_nudge();
        let wall = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        parent.say(format!("{} {}", wall.as_secs(), guard.is_held()));
    }
}
