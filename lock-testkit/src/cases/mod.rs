//! The cases: a module for each group, a function for each case.

pub(crate) mod cancellation;
mod closed;
mod crowd;
mod dropped;
pub(crate) mod exclusion;
pub(crate) mod fencing;
mod frozen;
mod layers;
pub(crate) mod lease;
pub(crate) mod modes;
mod names;
mod permits;
pub(crate) mod processes;
mod readers;
mod removed;
pub(crate) mod residue;
pub(crate) mod shutdown;
mod switchover;
pub(crate) mod turns;
pub(crate) mod upgrades;
pub(crate) mod waiting;
mod woken;

pub(crate) use closed::{delay, minimum};
pub(crate) use layers::{elections, inspection, owners, sets};
