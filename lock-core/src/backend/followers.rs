//! The waiters behind an acquisition, which are told of its outages.

use std::fmt;
use std::sync::Weak;

use crate::Error;
use crate::backend::Moment;

/// A waiter behind an acquisition, which is cut off from the store for as long as the acquisition
/// is.
pub(crate) trait QueuedBehind: Send + Sync {
    /// Notes that the store has not answered since `heard`, with the `error` of the last attempt.
    fn cut_off(&self, error: &Error, heard: Moment);
}

/// The waiters behind an acquisition, which it tells of an outage that it outlasts.
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
