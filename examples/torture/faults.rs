//! The faults of the workers, in sequence; each kind is drawn as often as any other.

use std::time::Duration;

use fastrand::Rng;
use lock_testkit::history::{Effect, Recorder};
use tokio::time::sleep;

use crate::bag::Bag;
use crate::calm::Times;
use crate::proxies::{Mishap, Way};
use crate::stage::problem::Problem;
use crate::workers::Workers;

/// Pause between two faults, in milliseconds.
const PAUSE: std::ops::Range<u64> = 20..300;

/// A fault of a worker.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A fault of the connection to the store.
    OnTheWay(Mishap),
    Stop,
    Kill,
}

/// A sequence of faults for some of the workers.
pub(crate) struct Lane<'a> {
    pub(crate) times: Times,
    pub(crate) workers: &'a Workers,
    /// The workers of this lane.
    pub(crate) numbers: Vec<u32>,
    /// The proxies of each worker; empty if the store allows no proxies.
    pub(crate) ways: &'a [Way],
    pub(crate) recorder: &'a Recorder,
    pub(crate) ttl: Duration,
    /// True if a lock ends with the connection that took it.
    pub(crate) connections_are_locks: bool,
}

impl Lane<'_> {
    pub(crate) async fn run(&self, mut rng: Rng) -> Result<(), Problem> {
        let mishaps = Mishap::ALL.into_iter().filter(|_| !self.ways.is_empty());
        let faults = mishaps
            .map(Fault::OnTheWay)
            .chain([Fault::Stop, Fault::Kill]);
        let mut bag = Bag::new(faults.collect());
        while let Some(fault) = bag.draw(&mut rng) {
            let share = match fault {
                // Long enough to lose locks, in most cases.
                Fault::Stop => 0.3 + 1.2 * rng.f64(),
                Fault::OnTheWay(_) | Fault::Kill => 0.02 + 1.3 * rng.f64() * rng.f64(),
            };
            let duration = self.ttl.mul_f64(share);
            if !self.times.time_for(duration).await {
                break;
            }
            self.commit(fault, duration, &mut rng).await?;
            sleep(Duration::from_millis(rng.u64(PAUSE))).await;
        }
        Ok(())
    }

    async fn commit(&self, fault: Fault, duration: Duration, rng: &mut Rng) -> Result<(), Problem> {
        let worker = self.numbers[rng.usize(0..self.numbers.len())];
        match fault {
            Fault::Stop => drop(self.workers.stop(worker, duration).await?),
            Fault::Kill => drop(self.workers.kill(worker)?),
            Fault::OnTheWay(mishap) => self.on_the_way(worker, mishap, duration, rng).await,
        }
        Ok(())
    }

    async fn on_the_way(&self, worker: u32, mishap: Mishap, duration: Duration, rng: &mut Rng) {
        let Some(name) = self.workers.alive(worker) else {
            return;
        };
        let way = &self.ways[worker as usize];
        let since = Recorder::now();
        way.begin(mishap, rng);
        if mishap.lasts() {
            sleep(duration).await;
            way.end();
        }
        // A store that ties locks to connections may free them before the client notices the loss.
        let removes = self.connections_are_locks && mishap.ends_connections();
        let effect = if removes {
            Effect::Removal
        } else {
            Effect::None
        };
        self.recorder
            .fault(Some(&name), mishap.name(), since, effect);
    }
}
