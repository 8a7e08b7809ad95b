//! Waiters, and the watchdog that detects those that are not polled.

pub(crate) mod count;
pub(crate) mod slow_waits;
pub(crate) mod watchdog;
pub(crate) mod watched_acquisition;
