//! Waiters whose tasks do not poll them.

pub(crate) mod driven;
pub(crate) mod slow_waits;
pub(crate) mod watchdog;
