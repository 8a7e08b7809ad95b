//! The conditions under which the figures were measured.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::figures::milliseconds;
use crate::plan::{PROCESSES, Plan, TASKS};
use crate::stage::problem::Problem;

#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    pub(crate) processors: usize,
    /// True if the program was built with optimization.
    pub(crate) optimized: bool,
    /// Time that a sync of a few bytes takes on the disk of the private servers.
    pub(crate) disk_sync_ms: f64,
    pub(crate) processes: u32,
    pub(crate) tasks: u32,
    pub(crate) free_s: f64,
    pub(crate) hot_s: f64,
}

impl Conditions {
    pub(crate) fn now(plan: Plan) -> Result<Self, Problem> {
        Ok(Self {
            processors: std::thread::available_parallelism()?.get(),
            optimized: !cfg!(debug_assertions),
            disk_sync_ms: milliseconds(disk_sync()?),
            processes: PROCESSES,
            tasks: TASKS,
            free_s: plan.free.as_secs_f64(),
            hot_s: plan.hot.as_secs_f64(),
        })
    }
}

/// Measures the median time of a few syncs.
fn disk_sync() -> Result<Duration, Problem> {
    let mut file = tempfile::tempfile()?;
    let mut times = Vec::new();
    for _ in 0..31 {
        let begin = Instant::now();
        file.write_all(&[0; 512])?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
