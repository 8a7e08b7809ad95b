//! Measures many locks that are held and renewed, and the cost of holding them.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::measure::memory;
use polylock::{DistributedLock, LockGuard};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::clock;
use super::figures::{Figures, Report, rounded};
use super::floors::{Floor, RawLock};
use super::free::{self, FreeLock, raw_side};
use super::laps::{Side, Tally, take_turns};
use super::plan::Plan;
use super::progress::Progress;
use super::server_load::received;
use super::store::Store;
use crate::problem::Problem;

/// Number of concurrent takes or releases.
const AT_ONCE: u32 = 64;

/// Maximum time for which a free lock is measured, before and while the other locks are held.
const PROBE: Duration = Duration::from_secs(3);

/// Interval at which the progress is shown.
const TICK: Duration = Duration::from_millis(500);

pub(crate) async fn measure(store: &Store, plan: &Plan) -> Result<Report, Problem> {
    let probing = PROBE.min(plan.lasting / 2);
    let progress = Progress::of("no lock held", plan.lasting + 2 * probing)?;
    let locks = store.connect().await?;
    let floor = Floor::open(store).await?;
    let alone = Probe::run(store, &locks, floor.as_ref(), probing, &progress).await?;
    progress.say("taking the locks");
    let before = memory(std::process::id());
    let held = take(store, &locks, plan.tasks).await?;
    let memory = memory(std::process::id()).zip(before);
    progress.say("holding the locks");
    let upkeep = Upkeep::measure(store, plan.lasting, &progress).await;
    let meanwhile = Probe::run(store, &locks, floor.as_ref(), probing, &progress).await?;
    progress.say("giving back the locks");
    give_back(held).await?;
    let mut figures = Figures::new(store, plan);
    figures.set_times(&meanwhile.ours.times);
    let p50 = |tally: &Tally| tally.times.quantile(0.5);
    figures.set_p50(p50(&meanwhile.ours), meanwhile.raw.as_ref().map(p50));
    figures.rate = upkeep.server.map(|rate| rounded(rate, 1));
    figures.violations = alone.violations + meanwhile.violations;
    figures.cpu_pct = Some(rounded(upkeep.processor * 100.0, 3));
    figures.bytes_per_lock =
        memory.map(|(after, before)| after.saturating_sub(before) / u64::from(plan.tasks));
    let raw_commands = floor.as_ref().map(Floor::commands).unwrap_or_default();
    if let Some(floor) = floor {
        floor.finish().await?;
    }
    Ok(Report {
        figures,
        times_of: "free lock and release meanwhile",
        rate_of: "received by the server a second",
        raw_of: "one task alone with a key of its own",
        raw_commands,
        more: vec![(
            "the same, p50, against none held",
            format!("{:.3}", meanwhile.against(&alone)),
        )],
    })
}

/// The cost of a free lock for one task.
struct Probe {
    ours: Tally,
    raw: Option<Tally>,
    violations: u64,
}

impl Probe {
    async fn run(
        store: &Store,
        locks: &Arc<dyn DistributedLock>,
        floor: Option<&Floor>,
        lasting: Duration,
        progress: &Progress,
    ) -> Result<Self, Problem> {
        let mut ours: Side<FreeLock> = free::side(store, locks, 1)?;
        let mut raw: Option<Side<RawLock>> = raw_side(store, floor, 1).await?;
        ours.warm_up().await?;
        if let Some(raw) = &mut raw {
            raw.warm_up().await?;
        }
        take_turns(&mut ours, raw.as_mut(), lasting, progress).await?;
        Ok(Self {
            ours: ours.tally(),
            raw: raw.map(|raw| raw.tally()),
            violations: free::violations(&ours),
        })
    }

    /// Returns the ratio of the median to that of `before`.
    ///
    /// If raw commands were measured, their ratio is divided out: the machine may have changed its
    /// speed.
    fn against(&self, before: &Self) -> f64 {
        let p50 = |tally: &Tally| tally.times.quantile(0.5).as_secs_f64();
        let raw = self.raw.as_ref().zip(before.raw.as_ref());
        let drift = raw.map_or(1.0, |(now, then)| p50(now) / p50(then));
        p50(&self.ours) / p50(&before.ours) / drift
    }
}

/// The cost of holding, per second.
struct Upkeep {
    /// Processor time of this process, as a part of one core.
    processor: f64,
    /// The number of requests that the server has received.
    server: Option<f64>,
}

impl Upkeep {
    async fn measure(store: &Store, lasting: Duration, progress: &Progress) -> Self {
        let before = received(store).await;
        let (begin, processor) = (clock::now(), clock::processor_time());
        let end = begin + u64::try_from(lasting.as_nanos()).unwrap_or(u64::MAX);
        while clock::now() < end {
            let nap = TICK.min(clock::between(clock::now(), end));
            sleep(nap).await;
            progress.add(nap);
        }
        let lasted = clock::between(begin, clock::now()).as_secs_f64();
        let processor = clock::processor_time() - processor;
        let server = received(store).await.zip(before);
        Self {
            processor: processor.as_secs_f64() / lasted,
            server: server.map(|(after, before)| after.saturating_sub(before) as f64 / lasted),
        }
    }
}

/// Takes `count` locks, [`AT_ONCE`] at a time.
async fn take(
    store: &Store,
    locks: &Arc<dyn DistributedLock>,
    count: u32,
) -> Result<Vec<Vec<LockGuard>>, Problem> {
    let mut taking: JoinSet<Result<Vec<LockGuard>, Problem>> = JoinSet::new();
    for first in 0..AT_ONCE.min(count) {
        let numbers = (first..count).step_by(AT_ONCE as usize);
        let requests = numbers.map(|number| store.request(&format!("held/{number}")));
        let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
        let locks = Arc::clone(locks);
        taking.spawn(async move {
            let mut guards = Vec::with_capacity(requests.len());
            for request in requests {
                let guard = locks.acquire(request.without_waiting()).await?;
                guards.push(guard.ok_or("somebody has a lock that nobody else knows of")?);
            }
            Ok(guards)
        });
    }
    let mut held = Vec::new();
    while let Some(guards) = taking.join_next().await {
        held.push(guards??);
    }
    Ok(held)
}

/// Releases all locks, and fails if one was lost.
async fn give_back(held: Vec<Vec<LockGuard>>) -> Result<(), Problem> {
    let lost = held.iter().flatten().filter(|guard| !guard.is_held());
    let lost = lost.count();
    let mut releasing: JoinSet<Result<(), Problem>> = JoinSet::new();
    for guards in held {
        releasing.spawn(async move {
            for guard in guards {
                guard.release().await?;
            }
            Ok(())
        });
    }
    while let Some(released) = releasing.join_next().await {
        released??;
    }
    match lost {
        0 => Ok(()),
        _ => Err(format!("{lost} of the locks were lost while they were held").into()),
    }
}
