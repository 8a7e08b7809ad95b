//! The work of a worker with a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use lock_testkit::history::{RecordedGuard, Recorder};
use polylock::DistributedLock;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::protocol::{Call, Holder, Job, Reply, Work};
use crate::stage::Transport;
use crate::stage::problem::Problem;
use crate::wish::{Ending, Patience, Wish};

/// Maximum pause of a task between two locks, in microseconds.
const REST: u64 = 8_000;

/// Pause of a task after a request that was not granted, in milliseconds.
const REST_UNANSWERED: std::ops::Range<u64> = 5..60;

/// The kind of locks that a task takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Many locks, held for moments.
    Busy,
    /// One lock, held for long, with a long queue.
    Slow,
    /// Some lock, held for very long.
    Steady,
}

/// The state that all tasks of a worker share.
pub(crate) struct Shift {
    pub(crate) worker: u32,
    pub(crate) job: Job,
    pub(crate) locks: Arc<dyn DistributedLock>,
    pub(crate) recorder: Recorder,
    pub(crate) headquarters: Arc<dyn Transport<Call, Reply>>,
    pub(crate) granted: AtomicU64,
    /// True after a crash, when holds have to stay as they are.
    pub(crate) has_crashed: AtomicBool,
    /// True once the tasks may request no more locks.
    pub(crate) is_over: watch::Sender<bool>,
}

/// A guard that a crash does not release, although the crash of a thread drops its tasks.
struct Kept<'a> {
    guard: Option<RecordedGuard>,
    has_crashed: &'a AtomicBool,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if self.has_crashed.load(Ordering::Relaxed) {
            std::mem::forget(self.guard.take());
        }
    }
}

impl Shift {
    /// Takes one lock after the other until the end of the run.
    pub(crate) async fn work(self: Arc<Self>, mut rng: Rng, kind: Kind) -> Result<(), Problem> {
        let capabilities = self.locks.capabilities();
        while !*self.is_over.borrow() {
            let ttl = self.job.ttl;
            let wish = match (self.job.work, kind) {
                (Work::All, Kind::Busy) => Wish::draw(&mut rng, &capabilities, ttl),
                (Work::All, Kind::Steady) => Wish::steady(&mut rng, ttl),
                (Work::All, Kind::Slow) => Wish::slow(&mut rng, ttl),
                (Work::Careless, _) => Wish::update(&mut rng, ttl),
            };
            match self.acquire(&wish).await? {
                Some(guard) => {
                    self.granted.fetch_add(1, Ordering::Relaxed);
                    let mut kept = Kept {
                        guard: Some(guard),
                        has_crashed: &self.has_crashed,
                    };
                    if let Some(guard) = &kept.guard {
                        self.hold(&wish, guard).await?;
                    }
                    if let Some(guard) = kept.guard.take() {
                        give_back(guard, wish.ending).await;
                    }
                    sleep(Duration::from_micros(rng.u64(0..REST))).await;
                }
                None => sleep(Duration::from_millis(rng.u64(REST_UNANSWERED))).await,
            }
        }
        Ok(())
    }

    /// Acquires a lock; `None` after a refusal or a temporary error.
    async fn acquire(&self, wish: &Wish) -> Result<Option<RecordedGuard>, Problem> {
        let request = wish.request(&self.job.keys)?;
        let acquiring = self.recorder.acquire(&*self.locks, request);
        let acquired = match wish.patience {
            Patience::Cancelled(after) => match timeout(after, acquiring).await {
                Ok(acquired) => acquired,
                Err(_) => return Ok(None),
            },
            _ => acquiring.await,
        };
        match acquired {
            Ok(guard) => Ok(guard),
            Err(error) if error.is_retryable() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn hold(&self, wish: &Wish, guard: &RecordedGuard) -> Result<(), Problem> {
        let Some(register) = wish.register else {
            guard.hold_for(wish.hold).await;
            return Ok(());
        };
        let holder = Holder {
            worker: self.worker,
            life: self.job.life,
            token: guard.guard().token().value(),
        };
        self.tell(Call::Read { holder, register }).await?;
        if self.job.work == Work::Careless {
            // A holder that is stopped right before the write does not check its lock again.
            sleep(wish.hold).await;
            return self.tell(Call::Write { holder, register }).await;
        }
        if guard.hold_for(wish.hold).await {
            self.tell(Call::Write { holder, register }).await?;
            if guard.is_held() {
                self.tell(Call::Confirm { holder, register }).await?;
            }
        }
        Ok(())
    }

    async fn tell(&self, call: Call) -> Result<(), Problem> {
        match self.headquarters.exchange(call).await? {
            Reply::Done => Ok(()),
            other => Err(format!("told {other:?} after an update").into()),
        }
    }
}

async fn give_back(guard: RecordedGuard, ending: Ending) {
    match ending {
        // The store releases the lock, whatever the answer is.
        Ending::Released => drop(guard.release().await),
        Ending::Dropped => drop(guard),
        Ending::Abandoned => {
            let release = std::pin::pin!(guard.release());
            let _unheard = timeout(Duration::from_micros(200), release).await;
        }
    }
}
