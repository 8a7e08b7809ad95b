//! A worker: a process, or on memory a thread, that does the jobs of the headquarters.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_testkit::measure::Stopwatch;
use polylock::DistributedLock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::protocol::{Call, Job, Reply, Rushed, Wanted};
use crate::stage::crash::{Crash, CrashBy, End};
use crate::stage::problem::Problem;
use crate::stage::{Instance, Transport};

type Headquarters = Arc<dyn Transport<Call, Reply>>;

pub(crate) struct Worker;

impl Instance for Worker {
    type Call = Call;
    type Reply = Reply;

    async fn serve(
        number: u32,
        headquarters: Headquarters,
        crash_by: CrashBy,
    ) -> Result<End, Problem> {
        match headquarters
            .exchange(Call::Apply { worker: number })
            .await?
        {
            Reply::Job(Job::Rush {
                lock,
                tasks,
                lasting,
            }) => rush(&headquarters, &lock, tasks, lasting).await,
            Reply::Job(Job::HoldAndCrash(lock)) => {
                let crash = Crash::new(crash_by);
                let crashing = hold_and_crash(number, &headquarters, &lock, &crash);
                match crash.survived_by(crashing).await {
                    Some(failed) => failed,
                    None => Ok(End::Crashed),
                }
            }
            Reply::Job(Job::Rest) => Ok(End::Finished),
            Reply::Go => Err("told to go without a job".into()),
        }
    }
}

async fn hold_and_crash(
    worker: u32,
    headquarters: &Headquarters,
    lock: &Wanted,
    crash: &Crash,
) -> Result<End, Problem> {
    let locks = polylock::connect(lock.configuration()).await?;
    let _guard = locks.acquire(lock.request()?).await?;
    headquarters.exchange(Call::Holding { worker }).await?;
    crash.now().await
}

async fn rush(
    headquarters: &Headquarters,
    lock: &Wanted,
    tasks: u32,
    lasting: Duration,
) -> Result<End, Problem> {
    let locks = polylock::connect(lock.configuration()).await?;
    headquarters.exchange(Call::Ready).await?;
    let diary = Arc::new(Mutex::new(Diary::new()));
    let end = Instant::now() + lasting;
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        running.spawn(take_again_and_again(
            Arc::clone(&locks),
            lock.clone(),
            end,
            Arc::clone(&diary),
        ));
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let rushed = open(&diary).rushed();
    headquarters.exchange(Call::Rushed(rushed)).await?;
    Ok(End::Finished)
}

async fn take_again_and_again(
    locks: Arc<dyn DistributedLock>,
    lock: Wanted,
    end: Instant,
    diary: Arc<Mutex<Diary>>,
) -> Result<(), Problem> {
    while Instant::now() < end {
        let asked = Instant::now();
        let guard = locks.acquire(lock.request()?).await?;
        let guard = guard.ok_or("the end of a wait without a limit")?;
        open(&diary).granted(asked);
        guard.release().await?;
    }
    Ok(())
}

/// The notes of the tasks of one worker.
struct Diary {
    waits: Stopwatch,
    last: Instant,
    longest_without: Duration,
}

impl Diary {
    fn new() -> Self {
        Self {
            waits: Stopwatch::new(),
            last: Instant::now(),
            longest_without: Duration::ZERO,
        }
    }

    fn granted(&mut self, asked: Instant) {
        let now = Instant::now();
        self.waits.note(now - asked);
        self.longest_without = self.longest_without.max(now - self.last);
        self.last = now;
    }

    fn rushed(&self) -> Rushed {
        Rushed {
            waits: self.waits.counts(),
            longest_without: self.longest_without,
        }
    }
}

fn open(diary: &Mutex<Diary>) -> std::sync::MutexGuard<'_, Diary> {
    diary.lock().unwrap_or_else(PoisonError::into_inner)
}
