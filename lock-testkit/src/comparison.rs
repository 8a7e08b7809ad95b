//! The cost of an operation, compared with the least that could do the same.

use std::time::Duration;

use tokio::time::Instant;

/// A benchmark of an operation against a raw version of it that does the same.
///
/// Both versions take turns within one process, so that a drift of the machine affects both. Each
/// round yields the ratio of their times, and the result is the median over the rounds.
///
/// ```no_run
/// use lock_core::{DistributedLockExt, MemoryLock, Result};
/// use lock_testkit::Comparison;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let locks = MemoryLock::new();
/// let keys: Vec<String> = (0..250).map(|number| format!("bench/{number}")).collect();
/// let raw = async |_number: usize| Ok(tokio::task::yield_now().await);
/// let ours = async |number: usize| locks.lock(&keys[number]).await?.release().await.map(drop);
/// let ratios = Comparison::new(keys.len()).run("lock + release", raw, ours).await?;
/// assert!(ratios.p50 < 10.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    block: usize,
    blocks: usize,
    rounds: usize,
}

/// The time of `ours` divided by the time of `raw`, from [`Comparison::run`]: 1.1 is a tenth more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// The ratio of the medians of single calls.
    pub p50: f64,
    /// The ratio of the means.
    pub mean: f64,
}

impl Comparison {
    /// Creates a benchmark of 5 rounds, each with 20 blocks of `block` calls for either version.
    pub fn new(block: usize) -> Self {
        Self {
            block,
            blocks: 20,
            rounds: 5,
        }
    }

    /// Sets the number of blocks for either version in a round. Default: 20.
    #[must_use]
    pub fn with_blocks(mut self, blocks: usize) -> Self {
        self.blocks = blocks;
        self
    }

    /// Sets the number of rounds, besides a first round that warms up. Default: 5.
    #[must_use]
    pub fn with_rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Runs the benchmark, and prints under `title` a line for each round and the result.
    ///
    /// Each call of `raw` and `ours` is timed, and gets its number in its block, from 0. Prepare
    /// the data of the calls beforehand. The first block of all calls `ours`, to warm up.
    ///
    /// # Errors
    ///
    /// The first error of `raw` or `ours`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the current call.
    pub async fn run<E>(
        &self,
        title: &str,
        mut raw: impl AsyncFnMut(usize) -> Result<(), E>,
        mut ours: impl AsyncFnMut(usize) -> Result<(), E>,
    ) -> Result<Ratios, E> {
        self.time(&mut ours, &mut Vec::new()).await?;
        self.round(&mut raw, &mut ours).await?;
        println!("{title}, {} a round, one task", self.blocks * self.block);
        println!(
            "round   raw p50   ours p50   ratio of p50   raw mean   ours mean   ratio of means"
        );
        let mut ratios = Vec::new();
        for number in 1..=self.rounds {
            let (raw, ours) = self.round(&mut raw, &mut ours).await?;
            let ratio = Ratios {
                p50: ours.p50 / raw.p50,
                mean: ours.mean / raw.mean,
            };
            println!(
                "{number:>5} {:>7.1}us {:>8.1}us {:>14.3} {:>8.1}us {:>9.1}us {:>16.3}",
                raw.p50, ours.p50, ratio.p50, raw.mean, ours.mean, ratio.mean
            );
            ratios.push(ratio);
        }
        let verdict = Ratios {
            p50: median(ratios.iter().map(|ratio| ratio.p50)),
            mean: median(ratios.iter().map(|ratio| ratio.mean)),
        };
        println!(
            "median of {}: p50 {:.3} times raw, mean {:.3} times raw",
            self.rounds, verdict.p50, verdict.mean
        );
        Ok(verdict)
    }

    async fn round<E>(
        &self,
        raw: &mut impl AsyncFnMut(usize) -> Result<(), E>,
        ours: &mut impl AsyncFnMut(usize) -> Result<(), E>,
    ) -> Result<(Timing, Timing), E> {
        let (mut theirs, mut own) = (Vec::new(), Vec::new());
        for block in 0..self.blocks {
            if block % 2 == 0 {
                self.time(raw, &mut theirs).await?;
                self.time(ours, &mut own).await?;
            } else {
                self.time(ours, &mut own).await?;
                self.time(raw, &mut theirs).await?;
            }
        }
        Ok((Timing::of(theirs), Timing::of(own)))
    }

    async fn time<E>(
        &self,
        call: &mut impl AsyncFnMut(usize) -> Result<(), E>,
        samples: &mut Vec<Duration>,
    ) -> Result<(), E> {
        for number in 0..self.block {
            let started = Instant::now();
            call(number).await?;
            samples.push(started.elapsed());
        }
        Ok(())
    }
}

/// Times in microseconds.
struct Timing {
    p50: f64,
    mean: f64,
}

impl Timing {
    fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let p50 = samples.get(samples.len() / 2).copied().unwrap_or_default();
        let total: Duration = samples.iter().sum();
        Self {
            p50: p50.as_secs_f64() * 1e6,
            mean: total.as_secs_f64() * 1e6 / samples.len().max(1) as f64,
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_ratio_is_that_of_the_times() {
        let raw = async |_: usize| {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<(), Infallible>(())
        };
        // One call of ten is far slower, which changes the mean but not the median.
        let ours = async |number: usize| {
            let milliseconds = if number == 0 { 110 } else { 20 };
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            Ok(())
        };
        let comparison = Comparison::new(10).with_blocks(3).with_rounds(2);
        let Ok(ratios) = comparison.run("sleeping", raw, ours).await;
        assert!((ratios.p50 - 2.0).abs() < 0.01, "{ratios:?}");
        assert!((ratios.mean - 2.9).abs() < 0.01, "{ratios:?}");
    }

    #[tokio::test]
    async fn the_first_error_ends_it() {
        let fine = async |_: usize| Ok(());
        let mut left = 3;
        let failing = async |_: usize| {
            left -= 1;
            if left == 0 { Err("broken") } else { Ok(()) }
        };
        let outcome = Comparison::new(2).run("failing", failing, fine).await;
        assert_eq!(outcome.err(), Some("broken"));
    }
}
