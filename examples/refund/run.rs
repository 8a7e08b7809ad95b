//! Runs the mechanisms, one after the other, through the same refunds.

use std::sync::Arc;
use std::time::Duration;

use crate::refund::arguments::Arguments;
use crate::refund::books::Books;
use crate::refund::clerk::Clerk;
use crate::refund::figures::Figures;
use crate::refund::headquarters::Headquarters;
use crate::refund::kills::Kills;
use crate::refund::locks;
use crate::refund::mechanism::Mechanism;
use crate::refund::peer::RefundSystem;
use crate::refund::protocol::Job;
use crate::refund::queues::Queues;
use crate::refund::requests::{arrivals, refunds};
use crate::refund::round_trips::round_trips;
use crate::stage::problem::Problem;
use crate::stage::{progress, run_instances};

/// The ttl: short, so that the lock of a killed holder is soon free.
///
/// It suits a busy machine, too: a peer that the store takes for dead loses its places in the
/// queues.
const TTL: Duration = Duration::from_secs(2);

/// Arrivals per second, which keep the banks busy for half of the time.
const PER_SECOND: f64 = 75.0;

/// Time limits of a run, besides the arrivals and the pauses of the banks: in total, and per kill.
const TIME_LIMIT: Duration = Duration::from_secs(120);
const TIME_LIMIT_KILL: Duration = Duration::from_secs(15);

/// The refunds that every mechanism goes through.
pub(crate) struct Run<'a> {
    arguments: &'a Arguments,
    name: String,
}

impl<'a> Run<'a> {
    pub(crate) fn new(arguments: &'a Arguments) -> Self {
        // No other run on the same store has these keys.
        let name = format!("{:016x}-{:x}", fastrand::u64(..), std::process::id());
        Self { arguments, name }
    }

    /// Runs one mechanism through the refunds and measures it.
    ///
    /// Returns `None` if the store does not support it and it was not selected by name.
    pub(crate) async fn measure(&self, mechanism: Mechanism) -> Result<Option<Figures>, Problem> {
        let mut job = self.job(mechanism);
        let store = locks::connect(job.store.configuration()?, mechanism).await?;
        let capabilities = store.capabilities();
        job.ttl = TTL.max(*capabilities.ttl.start());
        if mechanism == Mechanism::Queue && !capabilities.fair {
            if self.arguments.mechanism.is_empty() {
                return Ok(None);
            }
            let backend = capabilities.backend;
            return Err(format!(
                "{backend} keeps no queue: choose memory, etcd or zookeeper for it, or --mechanism lock"
            )
            .into());
        }
        drop(store);
        let round_trips = round_trips(&job).await?;
        let headquarters = Arc::new(self.headquarters(job)?);
        tokio::select! {
            done = self.run(&headquarters) => done?,
            _ = tokio::signal::ctrl_c() => return Err("interrupted".into()),
        }
        Ok(Some(headquarters.inspect(|state| {
            Figures::of(mechanism, state, round_trips)
        })))
    }

    async fn run(&self, headquarters: &Arc<Headquarters>) -> Result<(), Problem> {
        let in_processes = self.arguments.store.is_shared_by_processes()?;
        let peers = self.arguments.peers;
        let running = run_instances::<RefundSystem>(peers, in_processes, headquarters.clone());
        let limit = self.time_limit();
        let in_time = tokio::time::timeout(limit, running).await;
        in_time.map_err(|_| format!("the refunds were not finished in {limit:?}"))?
    }

    /// Returns the time limit of a run, far more than any mechanism takes.
    fn time_limit(&self) -> Duration {
        let Arguments { trades, kills, .. } = *self.arguments;
        let refunds = refunds(trades as usize, 1).len();
        let arriving = Duration::from_secs_f64(refunds as f64 / PER_SECOND);
        // The pauses if a single bank paid all refunds.
        let pausing = self.arguments.interval() * u32::try_from(refunds).unwrap_or(u32::MAX);
        TIME_LIMIT + TIME_LIMIT_KILL * kills + 4 * arriving + pausing
    }

    fn job(&self, mechanism: Mechanism) -> Job {
        let Arguments {
            trades,
            banks,
            peers,
            ..
        } = *self.arguments;
        let refunds = refunds(trades as usize, banks as usize);
        let within = Duration::from_secs_f64(refunds.len() as f64 / PER_SECOND);
        Job {
            life: 0,
            mechanism,
            store: self.arguments.store.clone(),
            keys: format!("refund/{}/{}", self.name, mechanism.name()),
            ttl: TTL,
            arrivals: arrivals(&refunds, peers, within),
        }
    }

    fn headquarters(&self, job: Job) -> Result<Headquarters, Problem> {
        let Arguments {
            trades,
            banks,
            peers,
            kills,
            ..
        } = *self.arguments;
        let refunds = refunds(trades as usize, banks as usize);
        let interval = self.arguments.interval();
        let books = Books::new(trades as usize, banks as usize, refunds.len(), interval);
        let bar = progress::bar(job.mechanism.name(), refunds.len(), "finished")?;
        let clerk = Clerk::new(job.arrivals.len(), bar)?;
        let (queues, kills) = (Queues::new(refunds), Kills::new(kills));
        Ok(Headquarters::new(job, peers, books, queues, kills, clerk))
    }
}
