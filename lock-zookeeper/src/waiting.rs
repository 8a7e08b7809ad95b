//! The watch of a waiting claim.

use std::future::pending;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::session::shared_watches::SharedWatch;

/// The longest time that a waiter relies on its watch before it looks at the queue again.
const TRUST: Duration = Duration::from_secs(10);

/// The change that a waiter waits for.
#[derive(PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// A change of the claim of this name.
    Claim(String),
    /// A change of any claim in the queue: a permit waits for the end of any holder.
    Anyone,
}

/// The open watch of one waiter.
pub(crate) struct WaiterWatch {
    before: WaitsFor,
    changed: BoxFuture<'static, ()>,
    has_changed: bool,
    _shared: Option<SharedWatch>,
}

impl WaiterWatch {
    /// Makes the watch for `before`; `changed` resolves at the change. `shared` keeps a watch open
    /// that other waiters may share.
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
    /// Cancel safe: a change between two calls ends the next call.
    pub(crate) async fn changed(&mut self) {
        if self.has_changed {
            return pending().await;
        }
        self.changed.as_mut().await;
        self.has_changed = true;
    }

    /// Returns true if the watch is for `before` and has reported no change.
    pub(crate) fn is_for(&self, before: &WaitsFor) -> bool {
        !self.has_changed && self.before == *before
    }
}

/// Returns how long a waiter relies on its watch: between half and all of the ttl at random. So
/// waiters that began at the same time do not look at the same time.
pub(crate) fn trust(ttl: Duration) -> Duration {
    ttl.min(TRUST).mul_f64(0.5 + 0.5 * fastrand::f64())
}
