//! Measures free locks: each task has a key of its own.

use std::sync::Arc;

use polylock::{DistributedLock, LockRequest};

use super::clock;
use super::figures::{Figures, Report, rounded};
use super::floors::{Floor, RawLock};
use super::laps::{Lap, Side, take_turns};
use super::plan::Plan;
use super::progress::Progress;
use super::referee::Referee;
use super::round_trips;
use super::store::Store;
use crate::problem::Problem;

pub(crate) async fn measure(store: &Store, plan: &Plan) -> Result<Report, Problem> {
    let progress = Progress::of("free locks", plan.lasting)?;
    let locks = store.connect().await?;
    let mut ours = side(store, &locks, plan.tasks)?;
    let floor = Floor::open(store).await?;
    let mut raw = raw_side(store, floor.as_ref(), plan.tasks).await?;
    ours.warm_up().await?;
    if let Some(raw) = &mut raw {
        raw.warm_up().await?;
    }
    take_turns(&mut ours, raw.as_mut(), plan.lasting, &progress).await?;
    let mut figures = Figures::new(store, plan);
    let tally = ours.tally();
    figures.compare(&tally, raw.map(|raw| raw.tally()).as_ref());
    figures.set_tasks(&tally.laps);
    figures.set_shares(&[tally.times.count()]);
    figures.violations = violations(&ours);
    progress.say("round trips");
    let trips = round_trips::of_free(store).await?;
    figures.round_trips_per_acquire = trips.map(|trips| rounded(trips.acquire, 3));
    let raw_commands = floor.as_ref().map(Floor::commands).unwrap_or_default();
    if let Some(floor) = floor {
        floor.finish().await?;
    }
    let release = trips.map(|trips| ("round trips per release", format!("{:.3}", trips.release)));
    Ok(Report {
        figures,
        times_of: "lock and release",
        rate_of: "locks a second",
        raw_of: "as many tasks, each with its own key",
        raw_commands,
        more: release.into_iter().collect(),
    })
}

/// A lock that a task takes and releases.
pub(crate) struct FreeLock {
    locks: Arc<dyn DistributedLock>,
    request: LockRequest,
    referee: Referee,
}

impl Lap for FreeLock {
    async fn lap(&mut self) -> Result<(), Problem> {
        let guard = self.locks.acquire(self.request.clone()).await?;
        let guard = guard.ok_or("a wait without a limit has ended")?;
        let now = clock::now();
        self.referee.enters(guard.token(), now);
        self.referee.leaves(now);
        guard.release().await?;
        Ok(())
    }
}

/// Creates the side of polylock: tasks with a key each.
pub(crate) fn side(
    store: &Store,
    locks: &Arc<dyn DistributedLock>,
    tasks: u32,
) -> Result<Side<FreeLock>, Problem> {
    let lock = |task| -> Result<FreeLock, Problem> {
        Ok(FreeLock {
            locks: Arc::clone(locks),
            request: store.request(&format!("free/{task}"))?,
            referee: Referee::new(),
        })
    };
    let all: Result<Vec<_>, _> = (0..tasks).map(lock).collect();
    Ok(Side::new(all?))
}

/// Creates the side of the raw commands: tasks with a key of the floor each.
pub(crate) async fn raw_side(
    store: &Store,
    floor: Option<&Floor>,
    tasks: u32,
) -> Result<Option<Side<RawLock>>, Problem> {
    let Some(floor) = floor else {
        return Ok(None);
    };
    let mut all = Vec::new();
    for task in 0..tasks {
        all.push(floor.lock(&store.key(&format!("raw/{task}"))).await?);
    }
    Ok(Some(Side::new(all)))
}

pub(crate) fn violations(ours: &Side<FreeLock>) -> u64 {
    ours.laps().map(|lock| lock.referee.violations()).sum()
}
