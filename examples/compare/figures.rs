//! The measured figures.

use std::time::Duration;

use lock_testkit::measure::Stopwatch;
use serde::Serialize;

use crate::colleagues::{Coupons, Refunds};
use crate::conditions::Conditions;
use crate::contender::Kind;

/// The figures of all stores.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) conditions: Conditions,
    pub(crate) stores: Vec<Figures>,
    /// The names of the stores whose measurement failed.
    pub(crate) failed: Vec<String>,
    /// The stores that were not installed and not named by a URL, each with the reason.
    pub(crate) missing: Vec<String>,
}

/// The figures of one store.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) kind: Kind,
    /// True if the store keeps a queue of the waiters.
    pub(crate) fair: bool,
    /// The ttl of the locks whose holders are killed.
    pub(crate) ttl_ms: f64,
    pub(crate) free: Free,
    pub(crate) round_trips: RoundTrips,
    /// With hand-off within a process, which is the default.
    pub(crate) hot: Hot,
    /// Without hand-off: the store decides about every grant.
    pub(crate) hot_through_store: Hot,
    pub(crate) recovery: Recovery,
    pub(crate) coupons: Coupons,
    pub(crate) refunds: Vec<Refunds>,
    /// `None` without a private server, and on memory.
    pub(crate) server: Option<ServerFigures>,
}

impl Figures {
    /// Returns true if all coupons and refunds came out right.
    pub(crate) fn is_clean(&self) -> bool {
        self.coupons.clean && self.refunds.iter().all(|refunds| refunds.clean)
    }

    /// Returns the refunds by `mechanism`, if the store supports it.
    pub(crate) fn refunds_by(&self, mechanism: &str) -> Option<&Refunds> {
        self.refunds.iter().find(|one| one.row.name == mechanism)
    }
}

/// Figures of free locks.
#[derive(Debug, Serialize)]
pub(crate) struct Free {
    pub(crate) take: Times,
    pub(crate) release: Times,
    /// Takes with their releases per second, by one task.
    pub(crate) per_s: f64,
    /// Takes with their releases per second, by several tasks of one process.
    pub(crate) together_per_s: f64,
    pub(crate) together_n: u64,
}

/// The round trips that a lock waits for; `None` where no proxy fits between client and store.
#[derive(Debug, Serialize)]
pub(crate) struct RoundTrips {
    pub(crate) take: Option<f64>,
    pub(crate) release: Option<f64>,
}

/// Figures of one lock that all processes want.
#[derive(Debug, Serialize)]
pub(crate) struct Hot {
    pub(crate) per_s: f64,
    pub(crate) wait: Times,
    /// Jain's index over the grants of the processes: 1 for equal shares, 1/n if one process had
    /// all.
    pub(crate) fairness: f64,
    /// The longest time that a process went without a grant.
    pub(crate) longest_without_ms: f64,
}

/// Times from the death of a holder until the waiter has the lock.
#[derive(Debug, Serialize)]
pub(crate) struct Recovery {
    pub(crate) blocked_ms: Vec<f64>,
}

impl Recovery {
    /// Returns the median.
    pub(crate) fn median_ms(&self) -> f64 {
        let mut sorted = self.blocked_ms.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn longest_ms(&self) -> f64 {
        self.blocked_ms.iter().copied().fold(f64::NAN, f64::max)
    }
}

/// Figures of a private server.
#[derive(Debug, Serialize)]
pub(crate) struct ServerFigures {
    pub(crate) ready_ms: f64,
    /// Memory after the measurement of the hot key.
    pub(crate) memory_mb: Option<f64>,
    /// The server's processor time for a free lock and its release.
    pub(crate) processor_us_per_lock: Option<f64>,
}

/// A summary of measured times, in milliseconds.
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
