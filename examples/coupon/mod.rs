//! The comparison of the ways to sell coupons.
//!
//! Where to start reading: `strategies` holds the ways side by side, `sale` the work that they
//! guard, `script` the accident that each of them meets. The `headquarters` keeps the shop, the
//! accidents and the measurements, the same for every strategy and every lock store.

mod accident;
mod arguments;
mod claim;
mod client;
mod commands;
mod figures;
mod headquarters;
mod instance;
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

use std::process::ExitCode;

use crate::stage::problem::{self, Problem};
use crate::stage::serve_in_process;
use arguments::Arguments;
use figures::Figures;
use instance::CouponShop;
use rush::Rush;

/// Runs the comparison that the command line describes; returns the exit status.
pub(crate) async fn main() -> ExitCode {
    let arguments = Arguments::checked();
    let done = match arguments.serves() {
        Some((instance, address)) => serve_in_process::<CouponShop>(instance, address).await,
        None => compare(&arguments).await,
    };
    done.unwrap_or_else(|problem| {
        eprintln!("coupon: {}", problem::in_full(&*problem));
        ExitCode::FAILURE
    })
}

/// Runs the strategies one after the other, and prints the report.
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
