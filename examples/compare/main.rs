//! All lock stores side by side: free locks, a hot key, killed holders, and the coupons and
//! refunds.
//!
//! The results are one table, and one page with charts:
//!
//! ```text
//! cargo run --release --example compare --all-features -- --html compare.html
//! cargo run --release --example compare --all-features -- --quick
//! cargo run --release --example compare --features redis,etcd -- \
//!     --lock redis://127.0.0.1 --lock etcd://127.0.0.1
//! ```
//!
//! Without `--lock` it compares memory and each store that is compiled in and whose server is
//! installed. It starts private servers for them.
//!
//! Where to start reading: `contest` measures one store, with `free`, `hot` and `recovery`.
//! `metrics` lists the figures that are shown, `advice` derives recommendations from them.

mod arguments;
mod colleagues;
mod conditions;
mod contender;
mod contest;
mod figures;
mod free;
mod hot;
mod plan;
mod progress;
mod protocol;
mod recovery;
mod report;
mod round_trips;
mod servers;
mod worker;

#[path = "../coupon/mod.rs"]
mod coupon;
#[path = "../refund/mod.rs"]
mod refund;
#[path = "../stage/mod.rs"]
mod stage;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use colleagues::Colleague;
use stage::problem::{self, Problem};
use stage::serve_in_process;
use worker::Worker;

#[tokio::main]
async fn main() -> ExitCode {
    match Colleague::of_this_process() {
        Some(Colleague::Coupon) => coupon::main().await,
        Some(Colleague::Refund) => refund::main().await,
        None => compare().await,
    }
}

async fn compare() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.serves() {
        Some((worker, address)) => serve_in_process::<Worker>(worker, address).await,
        None => contest_and_report(&arguments).await,
    };
    done.unwrap_or_else(|problem| {
        eprintln!("compare: {}", problem::in_full(&*problem));
        ExitCode::FAILURE
    })
}

async fn contest_and_report(arguments: &Arguments) -> Result<ExitCode, Problem> {
    report::check(arguments)?;
    let comparison = tokio::select! {
        comparison = contest::run(arguments) => comparison?,
        _ = tokio::signal::ctrl_c() => return Err("interrupted".into()),
    };
    report::print(&comparison, arguments)?;
    Ok(report::status(&comparison))
}
