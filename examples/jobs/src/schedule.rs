//! A scheduler whose jobs run on one of several processes.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use apalis::prelude::{BoxDynError, Data, WorkerBuilder};
use apalis_cron::{CronScheduler, Tick};
use clap::ValueEnum;
use polylock::{DistributedLock, DistributedLockExt};
use tokio_cron_scheduler::{Job, JobScheduler};

use crate::Problem;
use crate::clock::now;

const EVERY_SECOND: &str = "* * * * * *";
const PERIOD: Duration = Duration::from_secs(1);

/// The greatest difference of the clocks, together with the lateness of a scheduler.
const WITHIN: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The URL of the store, such as `redis://127.0.0.1`.
    url: String,
    /// The crate that plans the jobs.
    #[arg(long, value_enum, default_value_t = Scheduler::TokioCronScheduler)]
    scheduler: Scheduler,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scheduler {
    TokioCronScheduler,
    Apalis,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Problem> {
    let locks = polylock::connect(&*arguments.url).await?;
    match arguments.scheduler {
        Scheduler::TokioCronScheduler => by_tokio_cron_scheduler(locks).await,
        Scheduler::Apalis => by_apalis(locks).await,
    }
}

/// Runs the job with a scheduler that does not say which planned time it is.
async fn by_tokio_cron_scheduler(locks: Arc<dyn DistributedLock>) -> Result<(), Problem> {
    let mut scheduler = JobScheduler::new().await?;
    let job = Job::new_async(EVERY_SECOND, move |_, _| {
        let locks = Arc::clone(&locks);
        Box::pin(async move {
            if let Err(error) = report(&*locks, planned(now())).await {
                eprintln!("{error}");
            }
        })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    tokio::signal::ctrl_c().await?;
    scheduler.shutdown().await?;
    Ok(())
}

/// Runs the job with a worker whose ticks carry their planned times.
async fn by_apalis(locks: Arc<dyn DistributedLock>) -> Result<(), Problem> {
    async fn tick(tick: Tick, locks: Data<Arc<dyn DistributedLock>>) -> Result<(), BoxDynError> {
        let since = Duration::from_secs(tick.get_timestamp());
        report(&**locks, SystemTime::UNIX_EPOCH + since).await?;
        Ok(())
    }

    let schedule = cron::Schedule::from_str(EVERY_SECOND)?;
    let worker = WorkerBuilder::new("report")
        .backend(CronScheduler::new(schedule))
        .data(locks)
        .build(tick);
    worker.run_until(tokio::signal::ctrl_c()).await?;
    Ok(())
}

async fn report(locks: &dyn DistributedLock, planned: SystemTime) -> polylock::Result<()> {
    let since = planned.duration_since(SystemTime::UNIX_EPOCH);
    let second = since.unwrap_or_default().as_secs();
    let job = locks.once("report", planned, WITHIN, async |held| {
        println!("the report of {second}, with the token {}", held.token());
    });
    job.await.map(drop::<Option<()>>)
}

/// Returns the planned time next to `now`, which is the same on all instances.
fn planned(now: SystemTime) -> SystemTime {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default() + PERIOD / 2;
    let periods = since.as_millis() / PERIOD.as_millis();
    let periods = u32::try_from(periods).expect("before 2106");
    SystemTime::UNIX_EPOCH + PERIOD * periods
}
