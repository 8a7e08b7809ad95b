//! Measures one key that all tasks always want, in one process or in several.

use std::time::Duration;

use lock_testkit::measure::{Detour, Stopwatch};

use super::crew::{Crew, Rush};
use super::figures::{Figures, Report, rounded};
use super::floors::{Floor, RawLock, SharedMutex};
use super::free::raw_side;
use super::laps::{Side, Tally};
use super::plan::Plan;
use super::progress::Progress;
use super::referee::{Turn, violations_between};
use super::report::number;
use super::store::Store;
use crate::problem::Problem;

/// Durations of one turn of the locks, and of one turn of the raw commands and the mutex.
const TURN: Duration = Duration::from_secs(1);
const RAW_TURN: Duration = Duration::from_millis(200);

/// Time for which round trips are counted.
const COUNTING: Duration = Duration::from_secs(1);

pub(crate) async fn measure(store: &Store, plan: &Plan) -> Result<Report, Problem> {
    let progress = Progress::of("one key for all", plan.lasting)?;
    let mut crew = Crew::start(store, plan.processes, plan.tasks).await?;
    let floor = Floor::open(store).await?;
    let mut raw = raw(store, floor.as_ref(), plan.tasks).await?;
    let mut mutex = Side::new(SharedMutex::clones(plan.tasks));
    if let Some(raw) = &mut raw {
        raw.warm_up().await?;
    }
    let mut crowd = Crowd::default();
    crowd.has_warmed_up(crew.rush(RAW_TURN).await?);
    while crowd.running < plan.lasting {
        let turn = TURN.min(plan.lasting);
        crowd.has_rushed(crew.rush(turn).await?);
        if let Some(raw) = &mut raw {
            raw.run(RAW_TURN).await?;
        }
        mutex.run(RAW_TURN).await?;
        progress.add(turn);
    }
    progress.say("round trips");
    let trips = round_trips(store, &mut crew, &mut crowd).await?;
    let mut figures = Figures::new(store, plan);
    let rate = crowd.rate();
    crowd.fill(&mut figures, raw.map(|raw| raw.tally()));
    figures.round_trips_per_acquire = trips.map(|trips| rounded(trips, 5));
    let mut more = Vec::new();
    if plan.processes == 1 {
        let mutex = mutex.tally().rate;
        let share = rate / mutex * 100.0;
        let text = format!("{}, ours is {share:.2} % of it", number(mutex));
        more.push(("tokio::sync::Mutex, locks a second", text));
    }
    let raw_commands = floor.as_ref().map(Floor::commands).unwrap_or_default();
    if let Some(floor) = floor {
        floor.finish().await?;
    }
    Ok(Report {
        figures,
        times_of: "wait",
        rate_of: "locks a second",
        raw_of: match store.is_memory() {
            true => "the same number of tasks of one process",
            false => "one task alone with a key of its own, since these cannot wait",
        },
        raw_commands,
        more,
    })
}

async fn raw(
    store: &Store,
    floor: Option<&Floor>,
    tasks: u32,
) -> Result<Option<Side<RawLock>>, Problem> {
    match floor {
        Some(Floor::Memory) => {
            let clones = SharedMutex::clones(tasks).into_iter();
            Ok(Some(Side::new(clones.map(RawLock::Memory))))
        }
        floor => raw_side(store, floor, 1).await,
    }
}

/// Counts the round trips per lock, releases included, through a proxy that counts them.
async fn round_trips(
    store: &Store,
    crew: &mut Crew,
    crowd: &mut Crowd,
) -> Result<Option<f64>, Problem> {
    if store.is_memory() {
        return Ok(Some(0.0));
    }
    let Some((url, detour)) = Detour::to(&store.url).await? else {
        return Ok(None);
    };
    crew.prepare(&store.at(url)).await?;
    crowd.has_warmed_up(crew.rush(RAW_TURN).await?);
    let before = detour.trips();
    let rush = crew.rush(COUNTING).await?;
    let trips = detour.trips() - before;
    let locks: u64 = rush.rushed.iter().flat_map(|one| &one.laps).sum();
    crowd.has_warmed_up(rush);
    Ok((locks > 0).then(|| trips as f64 / locks as f64))
}

/// The sums over all rushes.
#[derive(Default)]
struct Crowd {
    running: Duration,
    waits: Stopwatch,
    /// The number of locks of each task, by process.
    laps: Vec<Vec<u64>>,
    violations: u64,
    turns: Vec<Turn>,
}

impl Crowd {
    /// Adds a rush that counts for violations only.
    fn has_warmed_up(&mut self, rush: Rush) {
        for one in rush.rushed {
            self.violations += one.violations;
            self.turns.extend(one.turns);
        }
    }

    fn has_rushed(&mut self, rush: Rush) {
        self.running += rush.lasted;
        self.laps.resize_with(rush.rushed.len(), Vec::new);
        for (one, laps) in rush.rushed.iter().zip(&mut self.laps) {
            self.waits.add(&one.waits);
            laps.resize(one.laps.len(), 0);
            for (sum, laps) in laps.iter_mut().zip(&one.laps) {
                *sum += laps;
            }
        }
        self.has_warmed_up(rush);
    }

    fn rate(&self) -> f64 {
        self.waits.count() as f64 / self.running.as_secs_f64()
    }

    fn fill(self, figures: &mut Figures, raw: Option<Tally>) {
        let tally = Tally {
            rate: self.rate(),
            times: self.waits,
            laps: self.laps.concat(),
        };
        figures.compare(&tally, raw.as_ref());
        figures.set_tasks(&tally.laps);
        let of_process = |laps: &Vec<u64>| laps.iter().sum();
        let counts: Vec<u64> = self.laps.iter().map(of_process).collect();
        figures.set_shares(&counts);
        figures.violations = self.violations + violations_between(self.turns);
    }
}
