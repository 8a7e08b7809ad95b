//! The comparison of the mechanisms that keep refunds apart.
//!
//! Where to start reading: `settle` is the work on a refund, `locks` its protection by each
//! mechanism, `peer` the tasks that do the work. `books` holds the results to check, and knows of
//! no lock.

mod arguments;
mod books;
mod clerk;
mod client;
pub(crate) mod figures;
mod headquarters;
mod kills;
mod locks;
mod mechanism;
mod peer;
mod protocol;
mod queues;
mod report;
mod requests;
mod round_trips;
mod run;
mod settle;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::stage::problem::{self, Problem};
use crate::stage::serve_in_process;
use arguments::Arguments;
use mechanism::Mechanism;
use peer::RefundSystem;
use run::Run;

/// Runs the comparison that the command line describes; returns the exit status.
pub(crate) async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.serves() {
        Some((peer, address)) => serve_in_process::<RefundSystem>(peer, address).await,
        None => compare(&arguments).await,
    };
    done.unwrap_or_else(|problem| {
        eprintln!("refund: {}", problem::in_full(&*problem));
        ExitCode::FAILURE
    })
}

/// Runs the mechanisms one after the other, and prints the report.
async fn compare(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let run = Run::new(arguments);
    let mut rows = Vec::new();
    for mechanism in Mechanism::value_variants() {
        if arguments.wants(*mechanism) {
            rows.extend(run.measure(*mechanism).await?);
        }
    }
    if arguments.json {
        report::print_json(&rows)?;
    } else {
        report::print_table(&rows, arguments)?;
    }
    Ok(report::status(&rows))
}
