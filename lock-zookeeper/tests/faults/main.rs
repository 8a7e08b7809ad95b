//! Locks on networks that fail: answers are lost, and connections are cut or silent.

mod bed;
mod confirmations;
mod deadlines;
mod left_behind;
mod lost_answers;
mod releases;
mod removals;
mod renegotiated;
mod renewals;
mod requests;
mod waiting;

use std::time::Duration;

/// The time that a few round trips may take on a busy machine.
const PROMPT: Duration = Duration::from_secs(10);
