//! The keeper and the claim, on paused time.

mod claims;
mod conversions;
mod converting;
mod health;
mod limits;
mod lock_delay;
mod max_hold;
mod min_hold;
mod once;
mod recheck;
mod releases;
mod renewal;
mod shortened;
mod shutdown;
mod states;
mod support;
