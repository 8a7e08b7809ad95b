//! Locks that are rows with an expiry.

pub(crate) mod conversions;
pub(crate) mod holds;
mod inspect;
pub(crate) mod key_state;
pub(crate) mod places;
pub(crate) mod poller;
pub(crate) mod releases;
pub(crate) mod statements;
