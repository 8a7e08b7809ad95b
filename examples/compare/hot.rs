//! Measures one lock that several processes always want, as in a rush for coupons.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lock_testkit::measure::Stopwatch;
use tokio::sync::Barrier;

use crate::figures::{Hot, Times, milliseconds};
use crate::plan::{PROCESSES, Plan, TASKS};
use crate::protocol::{Call, Job, Reply, Rushed, Wanted};
use crate::stage::problem::Problem;
use crate::stage::{Transport, run_instances};
use crate::worker::Worker;

pub(crate) async fn measure(lock: Wanted, plan: &Plan, in_processes: bool) -> Result<Hot, Problem> {
    let headquarters = Arc::new(Headquarters {
        job: Job::Rush {
            lock,
            tasks: TASKS,
            lasting: plan.hot,
        },
        all_ready: Barrier::new(PROCESSES as usize),
        rushed: Mutex::default(),
    });
    run_instances::<Worker>(PROCESSES, in_processes, headquarters.clone()).await?;
    let rushed = std::mem::take(&mut *headquarters.rushed());
    let mut waits = Stopwatch::new();
    for one in &rushed {
        waits.add(&one.waits);
    }
    let grants: Vec<u64> = rushed
        .iter()
        .map(|one| one.waits.iter().map(|(_, count)| count).sum())
        .collect();
    let longest = rushed.iter().map(|one| one.longest_without).max();
    Ok(Hot {
        per_s: waits.count() as f64 / plan.hot.as_secs_f64(),
        wait: Times::of(&waits),
        fairness: jain(&grants),
        longest_without_ms: milliseconds(longest.unwrap_or_default()),
    })
}

/// Returns Jain's fairness index.
///
/// R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and Discrimination for Resource
/// Allocation in Shared Computer Systems, DEC-TR-301, 1984.
fn jain(shares: &[u64]) -> f64 {
    let shares: Vec<f64> = shares.iter().map(|share| *share as f64).collect();
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

struct Headquarters {
    job: Job,
    all_ready: Barrier,
    rushed: Mutex<Vec<Rushed>>,
}

impl Headquarters {
    fn rushed(&self) -> std::sync::MutexGuard<'_, Vec<Rushed>> {
        self.rushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Transport<Call, Reply> for Headquarters {
    async fn exchange(&self, call: Call) -> Result<Reply, Problem> {
        match call {
            Call::Apply { .. } => return Ok(Reply::Job(self.job.clone())),
            Call::Ready => {
                self.all_ready.wait().await;
            }
            Call::Rushed(rushed) => self.rushed().push(rushed),
            Call::Holding { .. } => return Err("nobody is to hold anything in a rush".into()),
        }
        Ok(Reply::Go)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair_and_one_for_all_is_not() {
        assert_eq!(jain(&[5, 5, 5]), 1.0);
        assert!((jain(&[9, 0, 0]) - 1.0 / 3.0).abs() < 1e-9);
    }
}
