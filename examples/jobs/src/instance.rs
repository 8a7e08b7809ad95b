//! One instance of the proof: fires at each planned time by its own clock, and records its runs.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use polylock::{DistributedLock, DistributedLockExt, ErrorKind};
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Problem;
use crate::clock::now;

/// The number of jobs of an instance that run side by side.
const SIDE_BY_SIDE: usize = 32;

#[derive(clap::Args, Clone)]
pub(crate) struct Arguments {
    /// The URL of the store.
    #[arg(long)]
    pub(crate) url: String,
    /// The first planned time, in milliseconds since 1970.
    #[arg(long)]
    pub(crate) first: u64,
    /// The time in milliseconds by which the clock of this process is ahead.
    #[arg(long)]
    pub(crate) ahead: u64,
    /// The number of planned times.
    #[arg(long)]
    pub(crate) ticks: u32,
    /// The time between two planned times, in milliseconds.
    #[arg(long)]
    pub(crate) every: u64,
    /// The greatest difference of two clocks, in milliseconds.
    #[arg(long)]
    pub(crate) within: u64,
    /// The file in which each run is recorded, as a line with the number of its planned time.
    #[arg(long)]
    pub(crate) record: PathBuf,
    /// Kills this process right after each job that it ran.
    #[arg(long)]
    pub(crate) kill: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Problem> {
    check_clock(Duration::from_millis(arguments.ahead))?;
    let locks = polylock::connect(&*arguments.url).await?;
    let record = OpenOptions::new().append(true).open(&arguments.record)?;
    let instance = Arc::new(Instance {
        locks,
        record,
        arguments,
    });
    // A process that kills itself runs one job at a time, so that it kills no other.
    let side_by_side = if instance.arguments.kill {
        1
    } else {
        SIDE_BY_SIDE
    };
    let mut jobs = JoinSet::new();
    for tick in 0..instance.arguments.ticks {
        if jobs.len() == side_by_side {
            jobs.join_next().await.expect("some run")??;
        }
        let planned = instance.planned(tick);
        if let Ok(early) = planned.duration_since(now()) {
            sleep(early).await;
        }
        jobs.spawn(Arc::clone(&instance).fire(tick));
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }
    Ok(())
}

/// Checks that the clock of this process is ahead of the machine's, which the kernel tells.
fn check_clock(ahead: Duration) -> Result<(), Problem> {
    let real = clock_gettime(ClockId::Realtime);
    let real = Duration::new(u64::try_from(real.tv_sec)?, u32::try_from(real.tv_nsec)?);
    let shown = now().duration_since(SystemTime::UNIX_EPOCH)?;
    match shown.abs_diff(real + ahead) < Duration::from_millis(50) {
        true => Ok(()),
        false => Err(format!("the clock is at {shown:?}, not {ahead:?} after {real:?}").into()),
    }
}

struct Instance {
    locks: Arc<dyn DistributedLock>,
    record: File,
    arguments: Arguments,
}

impl Instance {
    fn planned(&self, tick: u32) -> SystemTime {
        let milliseconds = self.arguments.first + u64::from(tick) * self.arguments.every;
        SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds)
    }

    async fn fire(self: Arc<Self>, tick: u32) -> Result<(), Problem> {
        let within = Duration::from_millis(self.arguments.within);
        let record = async |_| {
            // One write, so that the lines of several processes do not mix.
            (&self.record).write_all(format!("{tick}\n").as_bytes())
        };
        let planned = self.planned(tick);
        match self.locks.once("tick", planned, within, record).await {
            Ok(None) => Ok(()),
            Ok(Some(recorded)) => {
                recorded?;
                if self.arguments.kill {
                    kill_process(getpid(), Signal::KILL)?;
                }
                Ok(())
            }
            // An instance that was started again comes too late for the first planned times.
            Err(error) if error.kind() == ErrorKind::Config && self.arguments.kill => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
