//! Counts how often a job runs at each planned time, on processes whose clocks differ.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use rustix::process::Signal;

use crate::Problem;
use crate::clock::now;
use crate::instance;
use crate::store::Store;

/// The time that all processes have to start before the first planned time.
const START: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The stores; all of them by default.
    #[arg(long, value_enum)]
    store: Vec<Store>,
    /// The number of planned times.
    #[arg(long, default_value_t = 1000)]
    ticks: u32,
    /// The time between two planned times, in milliseconds.
    #[arg(long, default_value_t = 50)]
    every: u64,
    /// The number of processes.
    #[arg(long, default_value_t = 8)]
    instances: u32,
    /// The difference between the clocks of one process and the next, in milliseconds.
    #[arg(long, default_value_t = 500)]
    apart: u64,
    /// Kills each process right after each job that it ran, and starts it again.
    #[arg(long)]
    kill: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let stores = match &arguments.store[..] {
        [] => Store::value_variants(),
        stores => stores,
    };
    let mut is_proved = true;
    for store in stores {
        let runs = prove(arguments, *store)?;
        let with = |count: u32| runs.iter().filter(|runs| **runs == count).count();
        let (never, once) = (with(0), with(1));
        let more = runs.len() - never - once;
        println!(
            "{store:?}: {once} of {} planned times ran once, {never} never, {more} more than once",
            runs.len()
        );
        is_proved &= once == runs.len();
    }
    Ok(if is_proved {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the number of runs of each planned time.
fn prove(arguments: &Arguments, store: Store) -> Result<Vec<u32>, Problem> {
    let server = store.start();
    let record = tempfile::NamedTempFile::new()?;
    let span = arguments.apart * u64::from(arguments.instances);
    let first = now().duration_since(SystemTime::UNIX_EPOCH)? + START;
    let instance = instance::Arguments {
        url: server.url(),
        first: u64::try_from(first.as_millis())? + span,
        ticks: arguments.ticks,
        every: arguments.every,
        within: span + 1000,
        ahead: 0,
        record: record.path().to_owned(),
        kill: arguments.kill,
    };
    let mut instances = Vec::new();
    for number in 0..arguments.instances {
        let mut instance = instance.clone();
        instance.ahead = arguments.apart * u64::from(number);
        let child = start(&instance)?;
        instances.push((instance, child));
    }
    for (instance, child) in &mut instances {
        loop {
            let end = child.wait()?;
            if end.success() {
                break;
            }
            if end.signal() != Some(Signal::KILL.as_raw()) {
                return Err(format!("an instance failed: {end}").into());
            }
            *child = start(instance)?;
        }
    }
    count(record.path(), arguments.ticks)
}

fn start(instance: &instance::Arguments) -> Result<Child, Problem> {
    let ahead = Duration::from_millis(instance.ahead);
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["instance", "--url", &instance.url])
        .args(["--first", &instance.first.to_string()])
        .args(["--ahead", &instance.ahead.to_string()])
        .args(["--ticks", &instance.ticks.to_string()])
        .args(["--every", &instance.every.to_string()])
        .args(["--within", &instance.within.to_string()])
        .arg("--record")
        .arg(&instance.record)
        .env("LD_PRELOAD", fake_clock()?)
        .env("FAKETIME", format!("+{}", ahead.as_secs_f64()))
        .env("DONT_FAKE_MONOTONIC", "1");
    if instance.kill {
        command.arg("--kill");
    }
    Ok(command.spawn()?)
}

/// Returns the library that sets the wall clock of a process, from Debian's package `libfaketime`.
fn fake_clock() -> Result<PathBuf, Problem> {
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let library = Path::new("/usr/lib").join(machine);
    let library = library.join("faketime/libfaketime.so.1");
    match library.exists() {
        true => Ok(library),
        false => Err(format!("{} is missing: install faketime", library.display()).into()),
    }
}

fn count(record: &Path, ticks: u32) -> Result<Vec<u32>, Problem> {
    let mut runs = vec![0; usize::try_from(ticks)?];
    for tick in std::fs::read_to_string(record)?.lines() {
        runs[tick.parse::<usize>()?] += 1;
    }
    Ok(runs)
}
