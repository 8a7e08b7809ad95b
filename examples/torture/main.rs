//! Torture for locks: processes take them in every supported way, under all kinds of faults.
//!
//! Each process records what happens to its locks. The records are checked at the end: no two
//! holders at once, growing tokens, no stuck waiter.
//!
//! ```text
//! cargo run --release --example torture
//! cargo run --release --features redis --example torture -- --lock redis://127.0.0.1 --minutes 1
//! cargo run --release --features etcd --example torture -- --lock etcd:// --server --minutes 10
//! ```
//!
//! It never harms the store at `--lock`, but only its own connections, through proxies, and its own
//! processes. With `--server` it starts a private store, and torments that, too.
//!
//! Where to start reading: `turn` is the work of a worker with a lock, `faults` are the faults of
//! the workers, `run` combines both. `registers` holds the protected data, and knows of no lock.
//! `lock_testkit::history` documents the checks of the records.

mod arguments;
mod bag;
mod calm;
mod cluster;
mod control;
mod faults;
mod headquarters;
mod protocol;
mod proxies;
mod registers;
mod report;
mod run;
mod server;
#[path = "../stage/mod.rs"]
mod stage;
mod torments;
mod turn;
mod wish;
mod worker;
mod workers;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use stage::problem::{self, Problem};
use stage::serve_in_process;
use worker::Worker;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.server {
        end_with_the_first_panic();
    }
    let done = match arguments.serves() {
        Some((worker, address)) => serve_in_process::<Worker>(worker, address).await,
        None => torture(&arguments).await,
    };
    done.unwrap_or_else(|problem| {
        eprintln!("torture: {}", problem::in_full(&*problem));
        ExitCode::FAILURE
    })
}

/// Ends the process at the first panic.
///
/// Why: a panic in a task or thread of the library breaks a promise, and would go unnoticed. A
/// process that has private servers to stop does not use the library.
fn end_with_the_first_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(1);
    }));
}

async fn torture(arguments: &Arguments) -> Result<ExitCode, Problem> {
    tokio::select! {
        done = run_and_report(arguments) => done,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    }
}

async fn run_and_report(arguments: &Arguments) -> Result<ExitCode, Problem> {
    if arguments.control {
        let control = control::run(arguments).await?;
        return report::print_control(&control, arguments);
    }
    let outcome = run::run(arguments).await?;
    report::print(&outcome, arguments)
}
