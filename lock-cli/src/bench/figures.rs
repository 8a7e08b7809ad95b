//! The measured figures.

use std::time::Duration;

use lock_testkit::measure::Stopwatch;
use serde::Serialize;

use super::laps::Tally;
use super::plan::Plan;
use super::store::Store;

/// The fields of the JSON object. A figure that a shape does not have is `None`.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) store: String,
    pub(crate) shape: &'static str,
    pub(crate) tasks: u32,
    pub(crate) processes: u32,
    /// Per second.
    pub(crate) rate: Option<f64>,
    pub(crate) p50_us: Option<u64>,
    pub(crate) p90_us: Option<u64>,
    pub(crate) p99_us: Option<u64>,
    pub(crate) max_us: Option<u64>,
    /// Number of times that two tasks held one lock at once, or a token did not grow.
    pub(crate) violations: u64,
    pub(crate) round_trips_per_acquire: Option<f64>,
    /// The least and the greatest number of locks that a task had.
    pub(crate) task_min: Option<u64>,
    pub(crate) task_max: Option<u64>,
    /// The part of all locks that each process had.
    pub(crate) process_shares: Option<Vec<f64>>,
    pub(crate) raw_rate: Option<f64>,
    pub(crate) raw_p50_us: Option<u64>,
    pub(crate) rate_vs_raw: Option<f64>,
    pub(crate) p50_vs_raw: Option<f64>,
    /// Processor time of this process, in percent of one core.
    pub(crate) cpu_pct: Option<f64>,
    pub(crate) bytes_per_lock: Option<u64>,
}

/// The figures, with the texts that only the table shows.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) figures: Figures,
    /// The subject of the times.
    pub(crate) times_of: &'static str,
    /// The subject of the rate.
    pub(crate) rate_of: &'static str,
    /// The meaning of `raw`.
    pub(crate) raw_of: &'static str,
    pub(crate) raw_commands: Vec<String>,
    /// More figures, by name.
    pub(crate) more: Vec<(&'static str, String)>,
}

impl Figures {
    pub(crate) fn new(store: &Store, plan: &Plan) -> Self {
        Self {
            store: store.name(),
            shape: plan.shape.name(),
            tasks: plan.tasks,
            processes: plan.processes,
            rate: None,
            p50_us: None,
            p90_us: None,
            p99_us: None,
            max_us: None,
            violations: 0,
            round_trips_per_acquire: None,
            task_min: None,
            task_max: None,
            process_shares: None,
            raw_rate: None,
            raw_p50_us: None,
            rate_vs_raw: None,
            p50_vs_raw: None,
            cpu_pct: None,
            bytes_per_lock: None,
        }
    }

    pub(crate) fn set_times(&mut self, times: &Stopwatch) {
        if times.count() == 0 {
            return;
        }
        let at = |quantile| Some(microseconds(times.quantile(quantile)));
        self.p50_us = at(0.50);
        self.p90_us = at(0.90);
        self.p99_us = at(0.99);
        self.max_us = Some(microseconds(times.longest()));
    }

    pub(crate) fn set_tasks(&mut self, laps: &[u64]) {
        self.task_min = laps.iter().min().copied();
        self.task_max = laps.iter().max().copied();
    }

    /// Sets the shares of the processes from the number of locks that each had.
    pub(crate) fn set_shares(&mut self, counts: &[u64]) {
        let all: u64 = counts.iter().sum();
        let share = |count: &u64| rounded(*count as f64 / all.max(1) as f64, 4);
        self.process_shares = Some(counts.iter().map(share).collect());
    }

    pub(crate) fn set_rate(&mut self, rate: f64, raw: Option<f64>) {
        self.rate = Some(rounded(rate, 1));
        self.raw_rate = raw.map(|raw| rounded(raw, 1));
        self.rate_vs_raw = raw.map(|raw| rounded(rate / raw, 3));
    }

    pub(crate) fn set_p50(&mut self, p50: Duration, raw: Option<Duration>) {
        self.raw_p50_us = raw.map(microseconds);
        self.p50_vs_raw = raw.map(|raw| rounded(p50.as_secs_f64() / raw.as_secs_f64(), 3));
    }

    /// Sets times and rate, and compares them with those of the raw side.
    pub(crate) fn compare(&mut self, ours: &Tally, raw: Option<&Tally>) {
        self.set_times(&ours.times);
        self.set_rate(ours.rate, raw.map(|raw| raw.rate));
        let raw = raw.map(|raw| raw.times.quantile(0.5));
        self.set_p50(ours.times.quantile(0.5), raw);
    }
}

/// Rounds `number` to `digits` decimal places, which is the precision of a measurement.
pub(crate) fn rounded(number: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (number * unit).round() / unit
}

fn microseconds(time: Duration) -> u64 {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    (nanoseconds + 500) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::arguments::Shape;

    #[test]
    fn all_fields_are_there_also_when_they_are_empty() {
        let plan = Plan {
            shape: Shape::Hot,
            tasks: 2,
            processes: 1,
            lasting: Duration::from_secs(1),
        };
        let mut figures = Figures::new(&Store::new("memory://", None), &plan);
        figures.set_shares(&[3, 1]);
        figures.set_rate(10.04, Some(4.0));
        figures.set_p50(Duration::from_nanos(1500), Some(Duration::from_micros(1)));
        let json = serde_json::to_value(&figures).unwrap();
        assert_eq!(json.as_object().unwrap().len(), 20);
        assert_eq!(json["process_shares"], serde_json::json!([0.75, 0.25]));
        assert_eq!(json["rate_vs_raw"], 2.51);
        assert_eq!(json["p50_vs_raw"], 1.5);
        assert_eq!(json["p50_us"], serde_json::Value::Null);
    }
}
