//! The change that a claim waits for.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use crate::connection::open::Watcher;
use crate::session::shared_watches::{Change, Watching};

/// The longest that a waiter trusts the server to tell of a change before it looks by itself.
const TRUST: Duration = Duration::from_secs(10);

/// Whose change lets a claim look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// The claim of this name.
    Claim(String),
    /// Any claim in the queue: for a permit behind holders, one of whom has to go.
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
                // A change, or the end of the connection: one looks again in any case.
                let _event = watcher.changed().await;
            }),
            has_changed: false,
            _watching: None,
        }
    }

    /// For the claim `name`, which others may watch as well: `watching` is how they find the watch.
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
    /// A change that comes while nobody waits is told to the next one who does.
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

/// Returns how long to wait for a change: somewhere between half and all of the ttl, so that those who wait
/// together do not look together.
pub(crate) fn trust(ttl: Duration) -> Duration {
    ttl.min(TRUST).mul_f64(0.5 + 0.5 * fastrand::f64())
}
