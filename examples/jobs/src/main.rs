//! Jobs that run once per planned time, on several processes.
//!
//! Start the scheduler in several terminals, with the URL of one store. Each second, one of them
//! runs the job:
//!
//! ```sh
//! cargo run --package polylock-example-jobs -- schedule redis://127.0.0.1
//! ```
//!
//! `prove` starts a store and eight processes whose clocks differ, and counts the runs of a job of
//! a millisecond at each planned time.

mod clock;
mod instance;
mod prove;
mod schedule;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An error of any kind, for the user of the example.
type Problem = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "Jobs that run once per planned time, on several processes")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a job each second, on one of the processes with the same URL, until Ctrl-C.
    Schedule(schedule::Arguments),
    /// Starts stores and processes with different clocks, and counts the runs of a job.
    Prove(prove::Arguments),
    #[command(hide = true)]
    Instance(instance::Arguments),
}

#[tokio::main]
async fn main() -> Result<ExitCode, Problem> {
    match Arguments::parse().command {
        Command::Schedule(arguments) => schedule::run(arguments).await?,
        Command::Prove(arguments) => return prove::run(&arguments),
        Command::Instance(arguments) => instance::run(arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}
