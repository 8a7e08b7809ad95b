//! The watch of a waiting claim.

use std::future::pending;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::session::shared_watches::SharedWatch;

/// The longest time that a waiter relies on its watch before it looks by itself.
const TRUST: Duration = Duration::from_secs(10);

/// The change that a waiter waits for.
#[derive(PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// A change of the claim of this name.
    Claim(String),
    /// A change of any claim in the queue: a permit waits for the deletion of any holder.
    Anyone,
}

/// A watch that is open.
pub(crate) struct WaiterWatch {
    before: WaitsFor,
    changed: BoxFuture<'static, ()>,
    has_changed: bool,
    _shared: Option<SharedWatch>,
}

impl WaiterWatch {
    /// Makes the watch for `before`, which reports it by `changed`. Other waiters may share it
    /// through `shared`.
    pub(crate) fn new(
        before: WaitsFor,
        changed: BoxFuture<'static, ()>,
        shared: Option<SharedWatch>,
    ) -> Self {
        Self {
            before,
            changed,
            has_changed: false,
            _shared: shared,
        }
    }

    /// Waits for the change.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a change that comes between two calls ends the next one.
    pub(crate) async fn changed(&mut self) {
        if self.has_changed {
            return pending().await;
        }
        self.changed.as_mut().await;
        self.has_changed = true;
    }

    /// Returns true if it still waits for the change of `before`.
    pub(crate) fn is_for(&self, before: &WaitsFor) -> bool {
        !self.has_changed && self.before == *before
    }
}

/// Returns how long to rely on a watch: between half and all of the ttl at random, so that waiters
/// of the same time do not look at the same time.
pub(crate) fn trust(ttl: Duration) -> Duration {
    ttl.min(TRUST).mul_f64(0.5 + 0.5 * fastrand::f64())
}
