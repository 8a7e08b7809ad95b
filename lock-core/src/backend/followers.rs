//! The waiters queued behind an acquisition, which it notifies of outages.

use std::fmt;
use std::sync::Weak;

use crate::Error;
use crate::backend::Moment;

/// A waiter behind an acquisition, cut off from the store for as long as the acquisition is.
pub(crate) trait QueuedBehind: Send + Sync {
    /// Records that the store has not answered since `last_reply`, with the last attempt's `error`.
    fn record_outage(&self, error: &Error, last_reply: Moment);
}

/// A reference to the waiters behind an acquisition, which it notifies of outages.
#[derive(Clone)]
pub(crate) struct Followers(pub(crate) Weak<dyn QueuedBehind>);

impl PartialEq for Followers {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Followers {}

impl fmt::Debug for Followers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Followers")
    }
}
