//! Torture for locks: processes take them in every way there is, while everything breaks that can, and each
//! writes down what it saw. Afterwards that is checked: no two holders, tokens that grow, nobody left behind.
//!
//! ```text
//! cargo run --release --example torture
//! cargo run --release --features redis --example torture -- --lock redis://127.0.0.1 --minutes 1
//! cargo run --release --features etcd --example torture -- --lock etcd:// --server --minutes 10
//! ```
//!
//! On a store of yours it only ever harms itself: its own connections, by proxies in between, and its own
//! processes. With `--server` it starts one for itself, and torments that, too.
//!
//! Where to start reading: `turn` is what a worker does with a lock, `faults` what is done to it, `run` puts
//! both together. `registers` is what must come out right: it knows of no lock. What the records prove is told
//! in `lock_testkit::history`.

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

/// A panic in a task or thread of the library breaks a promise, too, and nobody else would tell of it. Who has
/// servers to stop, works without the library.
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
