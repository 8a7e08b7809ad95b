//! Measures how long the lock of a killed holder stays blocked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use polylock::DistributedLock;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::figures::{Recovery, milliseconds};
use crate::protocol::{Call, Job, Reply, Wanted};
use crate::stage::problem::Problem;
use crate::stage::{Transport, run_instances};
use crate::worker::Worker;

/// Time between the waiter's request and the earliest death of its holder.
///
/// The holders die up to one ttl later, evenly spread: some before a renewal, some after.
const BEFORE_DEATH: Duration = Duration::from_millis(250);

/// Maximum wait for the lock of a dead holder.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kills the holder of each of `wanted` while a waiter waits through `locks`.
pub(crate) async fn measure(
    locks: Arc<dyn DistributedLock>,
    wanted: Vec<Wanted>,
    in_processes: bool,
) -> Result<Recovery, Problem> {
    let holders = u32::try_from(wanted.len())?;
    let lives = wanted.into_iter().map(|lock| Life { lock, died: None });
    let headquarters = Arc::new(Headquarters {
        locks,
        runtime: Handle::current(),
        lives: Mutex::new(lives.collect()),
        waiting: Mutex::default(),
    });
    run_instances::<Worker>(holders, in_processes, headquarters.clone()).await?;
    let mut waiting = std::mem::take(&mut *open(&headquarters.waiting));
    let mut blocked_ms = Vec::new();
    while let Some(waited) = waiting.join_next().await {
        let (holder, granted) = waited??;
        let died = open(&headquarters.lives)[holder].died;
        let died = died.ok_or("a lock that was granted while its holder lived")?;
        blocked_ms.push(milliseconds(granted.saturating_duration_since(died)));
    }
    Ok(Recovery { blocked_ms })
}

struct Life {
    lock: Wanted,
    died: Option<Instant>,
}

struct Headquarters {
    locks: Arc<dyn DistributedLock>,
    /// The runtime of the waiters. On memory the calls run on the runtimes of the holders.
    runtime: Handle,
    lives: Mutex<Vec<Life>>,
    waiting: Mutex<JoinSet<Result<(usize, Instant), Problem>>>,
}

impl Headquarters {
    /// Starts a waiter for the lock of `holder`, and returns when the holder is to die.
    async fn get_in_line(&self, holder: usize) -> Result<(), Problem> {
        let (request, later) = {
            let lives = open(&self.lives);
            let lock = &lives[holder].lock;
            let share = (holder + 1) as f64 / lives.len() as f64;
            (lock.request()?, lock.ttl.mul_f64(share))
        };
        let locks = Arc::clone(&self.locks);
        let waiting = async move {
            let guard = locks.acquire(request.waiting_at_most(PATIENCE)).await?;
            let granted = Instant::now();
            let guard = guard.ok_or_else(|| format!("blocked for more than {PATIENCE:?}"))?;
            guard.release().await?;
            Ok((holder, granted))
        };
        open(&self.waiting).spawn_on(waiting, &self.runtime);
        tokio::time::sleep(BEFORE_DEATH + later).await;
        Ok(())
    }
}

#[async_trait]
impl Transport<Call, Reply> for Headquarters {
    async fn exchange(&self, call: Call) -> Result<Reply, Problem> {
        match call {
            Call::Apply { worker } => {
                let life = &open(&self.lives)[worker as usize];
                Ok(Reply::Job(match life.died {
                    None => Job::HoldAndCrash(life.lock.clone()),
                    Some(_) => Job::Rest,
                }))
            }
            Call::Holding { worker } => {
                let holder = worker as usize;
                self.get_in_line(holder).await?;
                open(&self.lives)[holder].died = Some(Instant::now());
                Ok(Reply::Go)
            }
            Call::Ready | Call::Rushed(_) => Err("nobody is to rush here".into()),
        }
    }
}

fn open<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
