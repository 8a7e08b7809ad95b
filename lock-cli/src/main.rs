//! The command line of polylock.
//!
//! ```text
//! polylock bench --lock redis://127.0.0.1:6379
//! ```

#![cfg_attr(
    not(all(
        feature = "etcd",
        feature = "mysql",
        feature = "redis",
        feature = "zookeeper"
    )),
    allow(
        dead_code,
        unused_variables,
        reason = "some of it is for stores that were left out"
    )
)]

mod bench;
mod problem;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use polylock::ErrorKind;

use problem::Problem;

/// Distributed locks on Redis, MySQL, MariaDB, etcd, ZooKeeper and in memory.
#[derive(Debug, Parser)]
#[command(name = "polylock", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Arguments),
    /// Run as a process that another bench has started.
    #[command(hide = true)]
    BenchWorker,
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments).await,
        Command::BenchWorker => bench::work_for_parent().await,
    };
    done.unwrap_or_else(|problem| complain(&problem))
}

/// Prints the error, with the usage if the command line is wrong.
fn complain(problem: &Problem) -> ExitCode {
    let text = problem::in_full(&**problem);
    let is_usage = problem
        .downcast_ref::<polylock::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::Config);
    if is_usage {
        let error = Arguments::command().error(clap::error::ErrorKind::ValueValidation, text);
        error.exit();
    }
    eprintln!("polylock: {text}");
    ExitCode::FAILURE
}
