//! The keeper and the claim, on paused time.

mod alarm;
mod claims;
mod renewal;
mod shutdown;
mod support;
