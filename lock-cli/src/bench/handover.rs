//! Measures how long a key takes from a release in one process to the grant in another.

use std::time::Duration;

use lock_testkit::measure::{Detour, Stopwatch};
use tokio::time::sleep;

use super::clock;
use super::crew::Crew;
use super::figures::{Figures, Report, rounded};
use super::floors::{Floor, RawLock};
use super::free::raw_side;
use super::laps::Side;
use super::plan::Plan;
use super::progress::Progress;
use super::store::Store;
use crate::problem::Problem;

/// Time that the key is held, in milliseconds, while the other process enters the queue.
///
/// It is random, so that it does not fall into step with a timer.
const HELD_MS: std::ops::Range<u64> = 3..10;

/// Pause between two raw commands.
///
/// Why: a handover, too, begins with idle connections and sleeping threads that have to be woken.
const RAW_PAUSE: Duration = Duration::from_millis(1);

/// Number of handovers whose round trips are counted.
const COUNTED: u32 = 30;

pub(crate) async fn measure(store: &Store, plan: &Plan) -> Result<Report, Problem> {
    let progress = Progress::of("handing over", plan.lasting)?;
    let mut pair = Pair::start(store, plan).await?;
    // Memory has no round trips.
    let floor = Floor::open(store).await?.filter(|_| !store.is_memory());
    let mut raw = raw_side(store, floor.as_ref(), 1).await?;
    if let Some(raw) = &mut raw {
        raw.warm_up().await?;
    }
    let begin = clock::now();
    let mut done = Duration::ZERO;
    while done < plan.lasting {
        pair.hand_over(raw.as_mut()).await?;
        let now = clock::between(begin, clock::now());
        progress.add(now - done);
        done = now;
    }
    progress.say("round trips");
    let times = pair.times.clone();
    let trips = pair.round_trips(store).await?;
    let mut figures = Figures::new(store, plan);
    figures.set_times(&times);
    let raw_commands = floor.as_ref().map(Floor::commands).unwrap_or_default();
    let round_trip = raw.map(|raw| {
        let trips = u32::try_from(raw_commands.len()).unwrap_or(1);
        raw.tally().times.quantile(0.5) / trips
    });
    figures.set_p50(times.quantile(0.5), round_trip);
    figures.set_tasks(&pair.grants);
    figures.set_shares(&pair.grants);
    figures.violations = pair.violations;
    figures.round_trips_per_acquire = trips.map(|trips| rounded(trips, 3));
    if let Some(floor) = floor {
        floor.finish().await?;
    }
    Ok(Report {
        figures,
        times_of: "from a release to the other's grant",
        rate_of: "",
        raw_of: "one round trip of these, one task alone, after a pause as before a handover",
        raw_commands,
        more: vec![("handovers", times.count().to_string())],
    })
}

/// Both processes, and the index of the current holder.
struct Pair {
    crew: Crew,
    holder: usize,
    token: u64,
    times: Stopwatch,
    grants: [u64; 2],
    violations: u64,
}

impl Pair {
    async fn start(store: &Store, plan: &Plan) -> Result<Self, Problem> {
        let mut pair = Self {
            crew: Crew::start(store, plan.processes, plan.tasks).await?,
            holder: 0,
            token: 0,
            times: Stopwatch::new(),
            grants: [0; 2],
            violations: 0,
        };
        pair.begin().await?;
        Ok(pair)
    }

    /// Gives the key to the first process, and hands it over a few times uncounted, to load
    /// scripts.
    async fn begin(&mut self) -> Result<(), Problem> {
        self.holder = 0;
        self.crew.ask(0).await?;
        (self.token, _) = self.crew.has(0).await?;
        for _ in 0..4 {
            self.hand_over(None).await?;
        }
        self.times = Stopwatch::new();
        self.grants = [0; 2];
        Ok(())
    }

    /// Hands the key to the other process; `raw` runs while the key is held.
    async fn hand_over(&mut self, raw: Option<&mut Side<RawLock>>) -> Result<(), Problem> {
        let other = 1 - self.holder;
        self.crew.ask(other).await?;
        let held = Duration::from_millis(fastrand::u64(HELD_MS));
        let until = clock::now() + u64::try_from(held.as_nanos())?;
        let mut raw = raw;
        while clock::now() < until {
            sleep(RAW_PAUSE).await;
            if let Some(raw) = &mut raw {
                raw.run_once().await?;
            }
        }
        let released = self.crew.release(self.holder).await?;
        let (token, granted) = self.crew.has(other).await?;
        if granted < released || token <= self.token {
            self.violations += 1;
        }
        self.times.note(clock::between(released, granted));
        self.grants[other] += 1;
        (self.holder, self.token) = (other, token);
        Ok(())
    }

    /// Counts the round trips of a handover, through a proxy that counts them.
    async fn round_trips(&mut self, store: &Store) -> Result<Option<f64>, Problem> {
        self.crew.release(self.holder).await?;
        if store.is_memory() {
            return Ok(Some(0.0));
        }
        let Some((url, detour)) = Detour::to(&store.url).await? else {
            return Ok(None);
        };
        let grants = self.grants;
        self.crew.prepare(&store.at(url)).await?;
        self.begin().await?;
        let before = detour.trips();
        for _ in 0..COUNTED {
            self.hand_over(None).await?;
        }
        let trips = detour.trips() - before;
        self.crew.release(self.holder).await?;
        self.grants = grants;
        Ok(Some(trips as f64 / f64::from(COUNTED)))
    }
}
