//! What was measured.

use std::time::Duration;

use lock_testkit::measure::Stopwatch;
use serde::Serialize;

use crate::colleagues::{Coupons, Refunds};
use crate::conditions::Conditions;
use crate::contender::Kind;

/// Everything about everybody.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) conditions: Conditions,
    pub(crate) stores: Vec<Figures>,
    /// The names of those that something stopped.
    pub(crate) failed: Vec<String>,
    /// Those that nobody has asked for and that were not at hand, each with the reason.
    pub(crate) missing: Vec<String>,
}

/// One store.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) kind: Kind,
    /// Whether it keeps a queue of those who wait.
    pub(crate) fair: bool,
    /// The ttl of the holders that are killed.
    pub(crate) ttl_ms: f64,
    pub(crate) free: Free,
    pub(crate) round_trips: RoundTrips,
    /// Handed on within a process for a while, as it is by default.
    pub(crate) hot: Hot,
    /// Not handed on: the store decides about every grant.
    pub(crate) hot_through_store: Hot,
    pub(crate) recovery: Recovery,
    pub(crate) coupons: Coupons,
    pub(crate) refunds: Vec<Refunds>,
    /// Missing where the server is not ours, and on memory.
    pub(crate) server: Option<ServerFigures>,
}

impl Figures {
    /// Whether everything was sold and paid as it should be.
    pub(crate) fn is_clean(&self) -> bool {
        self.coupons.clean && self.refunds.iter().all(|refunds| refunds.clean)
    }

    /// The refunds by one mechanism, where the store has it.
    pub(crate) fn refunds_by(&self, mechanism: &str) -> Option<&Refunds> {
        self.refunds.iter().find(|one| one.row.name == mechanism)
    }
}

/// Locks that nobody else wants.
#[derive(Debug, Serialize)]
pub(crate) struct Free {
    pub(crate) take: Times,
    pub(crate) release: Times,
    /// Takes with their releases, by one task.
    pub(crate) per_s: f64,
    /// The same by several tasks of one process.
    pub(crate) together_per_s: f64,
    pub(crate) together_n: u64,
}

/// How many round trips a lock waits for. Missing where the way to the store cannot be changed.
#[derive(Debug, Serialize)]
pub(crate) struct RoundTrips {
    pub(crate) take: Option<f64>,
    pub(crate) release: Option<f64>,
}

/// One lock that everybody wants.
#[derive(Debug, Serialize)]
pub(crate) struct Hot {
    pub(crate) per_s: f64,
    pub(crate) wait: Times,
    /// Jain's index over the grants of the processes: 1 when all had as many, 1/n when one had all.
    pub(crate) fairness: f64,
    /// The longest that a process went without a grant.
    pub(crate) longest_without_ms: f64,
}

/// From the death of a holder until the next one has the lock.
#[derive(Debug, Serialize)]
pub(crate) struct Recovery {
    pub(crate) blocked_ms: Vec<f64>,
}

impl Recovery {
    /// The one in the middle.
    pub(crate) fn median_ms(&self) -> f64 {
        let mut sorted = self.blocked_ms.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn longest_ms(&self) -> f64 {
        self.blocked_ms.iter().copied().fold(f64::NAN, f64::max)
    }
}

/// A server of our own.
#[derive(Debug, Serialize)]
pub(crate) struct ServerFigures {
    pub(crate) ready_ms: f64,
    /// After the crowd at the hot key.
    pub(crate) memory_mb: Option<f64>,
    /// Of one task's free lock, taken and released.
    pub(crate) processor_us_per_lock: Option<f64>,
}

/// How long something took, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Times {
    pub(crate) n: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Times {
    pub(crate) fn of(stopwatch: &Stopwatch) -> Self {
        let at = |quantile| milliseconds(stopwatch.quantile(quantile));
        Self {
            n: stopwatch.count(),
            p50_ms: at(0.50),
            p99_ms: at(0.99),
            max_ms: milliseconds(stopwatch.longest()),
        }
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let recovery = Recovery {
            blocked_ms: vec![9.0, 1.0, 2.0],
        };
        assert_eq!((recovery.median_ms(), recovery.longest_ms()), (2.0, 9.0));
    }
}
