//! A scheduler whose jobs run on one of several processes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use polylock::{DistributedLock, DistributedLockExt};
use tokio_cron_scheduler::{Job, JobScheduler};

use crate::Problem;
use crate::clock::now;

const PERIOD: Duration = Duration::from_secs(1);

/// The greatest difference of the clocks, together with the lateness of a scheduler.
const WITHIN: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The URL of the store, such as `redis://127.0.0.1`.
    url: String,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Problem> {
    let locks = polylock::connect(&*arguments.url).await?;
    let mut scheduler = JobScheduler::new().await?;
    let job = Job::new_async("* * * * * *", move |_, _| {
        let locks = Arc::clone(&locks);
        Box::pin(async move { report(&*locks).await })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    tokio::signal::ctrl_c().await?;
    scheduler.shutdown().await?;
    Ok(())
}

async fn report(locks: &dyn DistributedLock) {
    let planned = planned(now());
    let job = locks.once("report", planned, WITHIN, async |held| {
        println!("the report of {planned:?}, with the token {}", held.token());
    });
    if let Err(error) = job.await {
        eprintln!("{error}");
    }
}

/// Returns the planned time next to `now`, which is the same on all instances.
fn planned(now: SystemTime) -> SystemTime {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default() + PERIOD / 2;
    let periods = since.as_millis() / PERIOD.as_millis();
    let periods = u32::try_from(periods).expect("before 2106");
    SystemTime::UNIX_EPOCH + PERIOD * periods
}
