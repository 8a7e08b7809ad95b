//! `polylock bench`: the cost of locks on a store, against the least commands that do the same.
//!
//! Where to start reading: each shape is a file, `free`, `contested` (hot and procs), `handover`
//! and `held`. `laps` lets polylock and the raw commands take turns. `floors` are the raw commands,
//! `crew` the processes that want one key, `figures` the results.

mod arguments;
mod clock;
mod contested;
mod crew;
mod figures;
mod floors;
mod free;
mod handover;
mod held;
mod laps;
mod plan;
mod progress;
mod referee;
mod report;
mod round_trips;
mod server_load;
mod store;

use std::process::ExitCode;

pub(crate) use arguments::Arguments;
use arguments::Shape;
use plan::Plan;
use store::Store;

use crate::problem::Problem;

/// Runs the bench that the command line describes; returns the exit status.
pub(crate) async fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let plan = Plan::of(arguments);
    let store = Store::new(&arguments.lock, arguments.hand_off);
    // A first connection reports mistakes in the URL in polylock's own words.
    drop(store.connect().await?);
    let report = tokio::select! {
        report = measure(&store, &plan) => report?,
        _ = tokio::signal::ctrl_c() => return Err("interrupted".into()),
    };
    report::print(&report, arguments.json)?;
    Ok(report::status(&report.figures))
}

async fn measure(store: &Store, plan: &Plan) -> Result<figures::Report, Problem> {
    match plan.shape {
        Shape::Free => free::measure(store, plan).await,
        Shape::Hot | Shape::Procs => contested::measure(store, plan).await,
        Shape::Handover => handover::measure(store, plan).await,
        Shape::Held => held::measure(store, plan).await,
    }
}

/// Runs as a process that another bench has started; returns the exit status.
pub(crate) async fn work_for_parent() -> Result<ExitCode, Problem> {
    crew::work_for_parent().await?;
    Ok(ExitCode::SUCCESS)
}
