//! A worker: a process, or on memory a thread, whose tasks take locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lock_testkit::block_thread;
use lock_testkit::history::Recorder;
use polylock::DistributedLock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::bag::draws;
use crate::protocol::{Call, Job, Order, Reply, Work};
use crate::stage::crash::{Crash, CrashBy, End};
use crate::stage::problem::Problem;
use crate::stage::{Instance, Transport};
use crate::turn::{Kind, Shift};

/// Number of tasks of a worker that take locks.
const TASKS: usize = 9;

/// Maximum time to connect to a store that is being tormented.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// Maximum time to release the last locks.
const GOODBYE: Duration = Duration::from_secs(5);

/// Interval at which the number of grants is reported.
const TELL: Duration = Duration::from_millis(250);

type Headquarters = Arc<dyn Transport<Call, Reply>>;

pub(crate) struct Worker;

impl Instance for Worker {
    type Call = Call;
    type Reply = Reply;

    async fn serve(
        worker: u32,
        headquarters: Headquarters,
        crash_by: CrashBy,
    ) -> Result<End, Problem> {
        let crash = Crash::new(crash_by);
        let serving = serve(worker, headquarters, &crash);
        match crash.survived_by(serving).await {
            Some(ended) => ended.map(|()| End::Finished),
            None => Ok(End::Crashed),
        }
    }
}

async fn serve(worker: u32, headquarters: Headquarters, crash: &Crash) -> Result<(), Problem> {
    let process = std::process::id();
    let job = match headquarters
        .exchange(Call::Apply { worker, process })
        .await?
    {
        Reply::Job(job) => job,
        other => return Err(format!("told {other:?} instead of a job").into()),
    };
    let name = job.name(worker);
    let recorder = Recorder::create(job.records.join(format!("{name}.jsonl")), name)?;
    let locks = connect(&job).await?;
    let (is_over, _) = watch::channel(false);
    let shift = Arc::new(Shift {
        worker,
        job,
        locks,
        recorder,
        headquarters,
        granted: AtomicU64::new(0),
        has_crashed: AtomicBool::new(false),
        is_over,
    });
    // A crash forgets this future and with it the set, so the tasks end with the runtime.
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let purpose = ("task", worker, shift.job.life, task);
        let kind = match task {
            0 => Kind::Steady,
            1 | 2 => Kind::Slow,
            _ => Kind::Busy,
        };
        tasks.spawn(Arc::clone(&shift).work(draws(shift.job.seed, purpose), kind));
    }
    tokio::select! {
        done = all(&mut tasks) => done?,
        failed = obey(&shift, crash) => failed?,
        failed = tell(&shift) => failed?,
    }
    // Dropped guards release in the background. The store may be gone, which is expected.
    let _unconfirmed = shift.locks.shutdown(GOODBYE).await;
    Ok(())
}

/// Waits until all tasks have ended, or one task has failed.
async fn all(tasks: &mut JoinSet<Result<(), Problem>>) -> Result<(), Problem> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Obeys the orders of the headquarters until the end of the worker.
async fn obey(shift: &Shift, crash: &Crash) -> Result<(), Problem> {
    let worker = shift.worker;
    loop {
        match shift.headquarters.exchange(Call::Orders { worker }).await? {
            Reply::Order(Order::Stand(duration)) => block_thread(duration),
            Reply::Order(Order::Crash) => {
                shift.recorder.death(&shift.job.name(worker));
                shift.has_crashed.store(true, Ordering::Relaxed);
                crash.now().await;
            }
            Reply::Order(Order::End) => {
                shift.is_over.send_replace(true);
                std::future::pending::<()>().await;
            }
            other => return Err(format!("told {other:?} instead of an order").into()),
        }
    }
}

/// Reports the number of grants at intervals.
async fn tell(shift: &Shift) -> Result<(), Problem> {
    let mut ticks = interval(TELL);
    loop {
        ticks.tick().await;
        let granted = shift.granted.swap(0, Ordering::Relaxed);
        shift.headquarters.exchange(Call::Granted(granted)).await?;
    }
}

/// Connects to the store, retrying while it is being tormented.
async fn connect(job: &Job) -> Result<Arc<dyn DistributedLock>, Problem> {
    let connecting = async {
        loop {
            match polylock::connect(job.configuration()?).await {
                Ok(locks) => return Ok(locks),
                Err(error) if error.is_retryable() => sleep(Duration::from_millis(50)).await,
                Err(error) => return Err(Problem::from(error)),
            }
        }
    };
    let limit = match job.work {
        Work::All => CONNECT_LIMIT,
        Work::Careless => GOODBYE,
    };
    let in_time = timeout(limit, connecting).await;
    in_time.map_err(|_| format!("the store cannot be reached within {limit:?}"))?
}
