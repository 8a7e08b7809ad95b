//! The keeper and the claim, on paused time.

mod alarm;
mod claims;
mod lock_delay;
mod max_hold;
mod renewal;
mod shutdown;
mod states;
mod support;
