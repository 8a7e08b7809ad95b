//! The coupon rush: a few coupons, far more buyers, several instances of the shop's service, and
//! ten ways to keep the sale correct. Nine of them are known to fail, and each is made to meet the
//! accident that breaks it; the last one is polylock, which meets all of them.
//!
//! ```text
//! cargo run --release --example coupon
//! cargo run --release --example coupon --features redis -- --lock redis://127.0.0.1:6379
//! cargo run --release --example coupon --features mysql -- --lock mysql://root@127.0.0.1/test
//! ```
//!
//! Where to start reading: `strategies` holds the ten ways side by side, `sale` the work that they
//! guard, `script` the accident that each of them meets. Shop, accidents and measuring are the
//! `headquarters`, the same for every strategy and every lock store.

mod accident;
mod arguments;
mod claim;
mod client;
mod commands;
mod crash;
mod figures;
mod headquarters;
mod hosts;
mod instance;
mod problem;
mod progress;
mod protocol;
mod register;
mod report;
mod rush;
mod sale;
mod script;
mod shop;
mod strategies;
mod strategy;
mod submissions;
mod tools;
mod wire;

use std::process::ExitCode;

use arguments::Arguments;
use figures::Figures;
use problem::Problem;
use rush::Rush;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::checked();
    let done = match arguments.serves() {
        Some((instance, address)) => hosts::serve_in_process(instance, address).await,
        None => compare(&arguments).await,
    };
    done.unwrap_or_else(|problem| {
        eprintln!("coupon: {}", problem::in_full(&*problem));
        ExitCode::FAILURE
    })
}

/// Runs the strategies one after the other and reports on them.
async fn compare(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let rush = Rush::prepare(arguments).await?;
    let mut rows: Vec<Figures> = Vec::new();
    for strategy in arguments.strategies() {
        rows.push(rush.run(strategy).await?);
    }
    if arguments.json {
        report::print_json(&rows)?;
    } else {
        report::print_table(&rows, arguments)?;
    }
    Ok(report::status(&rows, arguments.stock))
}
