//! What a network does to locks: answers that get lost, connections that are cut or go silent.

mod bed;
mod confirmations;
mod deadlines;
mod left_behind;
mod lost_answers;
mod releases;
mod removals;
mod renegotiated;
mod requests;
mod waiting;

use std::time::Duration;

/// How long anything may take that takes a few round trips, on a busy machine.
const PROMPT: Duration = Duration::from_secs(10);
