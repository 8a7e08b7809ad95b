//! The watch of a waiting claim.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use crate::connection::open::Watcher;
use crate::session::shared_watches::{Change, Watching};

/// The longest time that a waiter relies on its watch before it looks by itself.
const TRUST: Duration = Duration::from_secs(10);

/// The change that a waiter waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// A change of the claim of this name.
    Claim(String),
    /// A change of any claim in the queue: a permit waits for the deletion of any holder.
    Anyone,
}

/// A watch that is open.
pub(crate) struct Waiting {
    pub(crate) before: WaitsFor,
    changed: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_changed: bool,
    _watching: Option<Watching>,
}

impl Waiting {
    pub(crate) fn for_anyone(watcher: Watcher) -> Self {
        Self {
            before: WaitsFor::Anyone,
            changed: Box::pin(async move {
                // A change, or the end of the connection: the waiter looks again in either case.
                let _event = watcher.changed().await;
            }),
            has_changed: false,
            _watching: None,
        }
    }

    /// Makes the watch of the claim `name`, which other waiters may share through `watching`.
    pub(crate) fn for_claim(name: String, watching: Watching, changed: Change) -> Self {
        Self {
            before: WaitsFor::Claim(name),
            changed: Box::pin(changed),
            has_changed: false,
            _watching: Some(watching),
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
