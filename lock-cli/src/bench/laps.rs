//! Tasks that repeat an action, and the turns of two kinds of such tasks.

use std::time::Duration;

use lock_testkit::measure::Stopwatch;
use tokio::task::JoinSet;

use super::clock;
use super::progress::Progress;
use crate::problem::Problem;

/// Duration of one turn of a side.
const TURN: Duration = Duration::from_millis(100);

/// An action that a task repeats, such as taking and releasing a lock.
pub(crate) trait Lap: Send + 'static {
    fn lap(&mut self) -> impl Future<Output = Result<(), Problem>> + Send;
}

/// Tasks that repeat the same action.
pub(crate) struct Side<L> {
    tasks: Vec<Runner<L>>,
    /// The time for which all tasks have run.
    running: Duration,
}

struct Runner<L> {
    lap: L,
    times: Stopwatch,
}

/// The sums of a side.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) times: Stopwatch,
    /// Laps per second.
    pub(crate) rate: f64,
    /// The number of laps of each task.
    pub(crate) laps: Vec<u64>,
}

impl<L: Lap> Side<L> {
    /// Creates a side with a task for each of `laps`.
    pub(crate) fn new(laps: impl IntoIterator<Item = L>) -> Self {
        let runner = |lap| Runner {
            lap,
            times: Stopwatch::new(),
        };
        Self {
            tasks: laps.into_iter().map(runner).collect(),
            running: Duration::ZERO,
        }
    }

    /// Runs a turn that does not count: it opens connections, loads scripts and inserts rows.
    pub(crate) async fn warm_up(&mut self) -> Result<(), Problem> {
        self.run(TURN).await?;
        self.running = Duration::ZERO;
        for task in &mut self.tasks {
            task.times = Stopwatch::new();
        }
        Ok(())
    }

    /// Runs all tasks for `lasting`.
    pub(crate) async fn run(&mut self, lasting: Duration) -> Result<(), Problem> {
        let begin = clock::now();
        let end = begin + nanoseconds(lasting);
        let mut running = JoinSet::new();
        for task in self.tasks.drain(..) {
            running.spawn(task.run(end));
        }
        while let Some(task) = running.join_next().await {
            self.tasks.push(task??);
        }
        self.running += clock::between(begin, clock::now());
        Ok(())
    }

    /// Runs one lap of each task.
    pub(crate) async fn run_once(&mut self) -> Result<(), Problem> {
        self.run(Duration::ZERO).await
    }

    pub(crate) fn tally(&self) -> Tally {
        let mut times = Stopwatch::new();
        for task in &self.tasks {
            times.join(&task.times);
        }
        Tally {
            rate: times.count() as f64 / self.running.as_secs_f64(),
            times,
            laps: self.tasks.iter().map(|task| task.times.count()).collect(),
        }
    }

    pub(crate) fn laps(&self) -> impl Iterator<Item = &L> {
        self.tasks.iter().map(|task| &task.lap)
    }
}

impl<L: Lap> Runner<L> {
    /// Runs laps until `end`, at least one.
    async fn run(mut self, end: u64) -> Result<Self, Problem> {
        let mut begin = clock::now();
        loop {
            self.lap.lap().await?;
            let done = clock::now();
            self.times.note(clock::between(begin, done));
            begin = done;
            if begin >= end {
                return Ok(self);
            }
        }
    }
}

/// Runs `ours` for `lasting` and `raw`, if any, for as long, in alternating turns.
///
/// The sides swap their order after each turn. Why: a change of the machine's speed affects both.
pub(crate) async fn take_turns<O: Lap, R: Lap>(
    ours: &mut Side<O>,
    mut raw: Option<&mut Side<R>>,
    lasting: Duration,
    progress: &Progress,
) -> Result<(), Problem> {
    let turn = TURN.min(lasting / 2);
    let until = ours.running + lasting;
    let mut ours_is_first = true;
    while ours.running < until {
        if ours_is_first {
            ours.run(turn).await?;
        }
        if let Some(raw) = &mut raw {
            raw.run(turn).await?;
        }
        if !ours_is_first {
            ours.run(turn).await?;
        }
        ours_is_first = !ours_is_first;
        progress.add(turn);
    }
    Ok(())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nap(Duration);

    impl Lap for Nap {
        async fn lap(&mut self) -> Result<(), Problem> {
            tokio::time::sleep(self.0).await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn both_sides_run_as_long_and_are_counted_apart() {
        let nap = |milliseconds| Nap(Duration::from_millis(milliseconds));
        let mut ours = Side::new([nap(40), nap(10)]);
        let mut raw = Side::new([nap(5)]);
        ours.warm_up().await.unwrap();
        let lasting = Duration::from_millis(600);
        let progress = Progress::hidden();
        take_turns(&mut ours, Some(&mut raw), lasting, &progress)
            .await
            .unwrap();
        let (ours, raw) = (ours.tally(), raw.tally());
        assert_eq!((ours.laps.len(), raw.laps.len()), (2, 1));
        assert!(ours.laps.iter().max() > ours.laps.iter().min(), "{ours:?}");
        assert!(ours.times.longest() >= Duration::from_millis(40));
        assert!(raw.times.quantile(0.5) >= Duration::from_millis(5));
        assert!(raw.rate <= 200.0, "{raw:?}");
    }
}
