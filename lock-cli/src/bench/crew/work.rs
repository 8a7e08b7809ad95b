//! The work of a worker: the tasks of one process that want one key.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::measure::Stopwatch;
use polylock::{Config, DistributedLock, LockGuard, LockRequest};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::wire::{Answer, Job, Link, Order, Rushed};
use crate::bench::clock;
use crate::bench::referee::Referee;
use crate::problem::{self, Problem};

/// Time after a release before the worker answers the bench.
const QUIET: Duration = Duration::from_millis(3);

/// Obeys orders until the link is closed, and reports a failure to the bench.
pub(crate) async fn serve(mut link: Link) -> Result<(), Problem> {
    let done = obey(&mut link).await;
    if let Err(problem) = &done {
        let failed = Answer::Failed(problem::in_full(&**problem));
        // If the report does not arrive, the bench has already ended.
        let _unheard = link.send(&failed).await;
    }
    done
}

async fn obey(link: &mut Link) -> Result<(), Problem> {
    let mut worker: Option<Worker> = None;
    while let Some(order) = link.receive().await? {
        let answer = match (order, &mut worker) {
            (Order::Prepare(job), worker) => {
                *worker = Some(Worker::prepare(job).await?);
                Answer::Ready
            }
            (_, None) => return Err("an order for a worker that is not prepared".into()),
            (Order::Rush { begins, ends }, Some(worker)) => {
                Answer::Rushed(worker.rush(begins, ends).await?)
            }
            (Order::Ask, Some(worker)) => worker.ask().await?,
            (Order::Release, Some(worker)) => worker.release().await?,
        };
        link.send(&answer).await?;
    }
    Ok(())
}

struct Worker {
    key: Key,
    tasks: u32,
    guard: Option<LockGuard>,
}

/// The parts that each task has a clone of.
#[derive(Clone)]
struct Key {
    locks: Arc<dyn DistributedLock>,
    request: LockRequest,
    referee: Arc<Referee>,
}

impl Worker {
    async fn prepare(job: Job) -> Result<Self, Problem> {
        let mut config = Config::new(job.url);
        config.hand_off = job.hand_off;
        let referee = match job.has_rivals {
            true => Referee::among_processes(),
            false => Referee::new(),
        };
        Ok(Self {
            key: Key {
                locks: polylock::connect(config).await?,
                request: LockRequest::exclusive(&job.key)?,
                referee: Arc::new(referee),
            },
            tasks: job.tasks,
            guard: None,
        })
    }

    async fn rush(&self, begins: u64, ends: u64) -> Result<Rushed, Problem> {
        sleep(clock::between(clock::now(), begins)).await;
        let mut running = JoinSet::new();
        for task in 0..self.laps().len() {
            let taking = self.key.clone().take_until(ends);
            running.spawn(async move { Ok::<_, Problem>((task, taking.await?)) });
        }
        let (mut waits, mut laps) = (Stopwatch::new(), self.laps());
        while let Some(ended) = running.join_next().await {
            let (task, waited) = ended??;
            laps[task] = waited.count();
            waits.join(&waited);
        }
        Ok(Rushed {
            ended: clock::now(),
            waits: waits.counts(),
            laps,
            violations: self.key.referee.take_violations(),
            turns: self.key.referee.take_turns(),
        })
    }

    /// Returns a zero for each task.
    fn laps(&self) -> Vec<u64> {
        (0..self.tasks).map(|_| 0).collect()
    }

    async fn ask(&mut self) -> Result<Answer, Problem> {
        let guard = self.key.take().await?;
        let at = clock::now();
        let token = guard.token().value();
        self.guard = Some(guard);
        Ok(Answer::Has { token, at })
    }

    async fn release(&mut self) -> Result<Answer, Problem> {
        let guard = self.guard.take().ok_or("nothing is held")?;
        let at = clock::now();
        guard.release().await?;
        // The next holder must not share the processor with this answer.
        sleep(QUIET).await;
        Ok(Answer::Released { at })
    }
}

impl Key {
    async fn take(&self) -> Result<LockGuard, Problem> {
        let guard = self.locks.acquire(self.request.clone()).await?;
        guard.ok_or_else(|| "a wait without a limit has ended".into())
    }

    async fn take_until(self, ends: u64) -> Result<Stopwatch, Problem> {
        let mut waits = Stopwatch::new();
        let mut asked = clock::now();
        while asked < ends {
            let guard = self.take().await?;
            let granted = clock::now();
            self.referee.enters(guard.token(), granted);
            waits.note(clock::between(asked, granted));
            self.referee.leaves(clock::now());
            guard.release().await?;
            asked = clock::now();
        }
        Ok(waits)
    }
}
