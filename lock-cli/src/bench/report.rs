//! Prints the report: a table, or JSON for programs; and determines the exit status.

use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};

use super::figures::{Figures, Report};
use crate::problem::Problem;

pub(crate) fn print(report: &Report, as_json: bool) -> Result<(), Problem> {
    if as_json {
        println!("{}", serde_json::to_string(&report.figures)?);
        return Ok(());
    }
    let figures = &report.figures;
    let tasks = match figures.shape {
        "held" => format!("{} locks", figures.tasks),
        _ => format!("{} a process", plural(figures.tasks, "task", "tasks")),
    };
    let processes = plural(figures.processes, "process", "processes");
    println!("{}, {}: {processes}, {tasks}", figures.store, figures.shape);
    println!("{}", table(report));
    if !report.raw_commands.is_empty() {
        println!("raw is {}:", report.raw_of);
        for command in &report.raw_commands {
            println!("    {}", command.replace('\n', "\n    "));
        }
    }
    if cfg!(debug_assertions) {
        println!(
            "Built without optimization: build it with --release for figures that mean something."
        );
    }
    Ok(())
}

/// Returns the exit status; prints a complaint if there were violations.
pub(crate) fn status(figures: &Figures) -> ExitCode {
    if figures.violations == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "polylock: {} violations: two had one lock at once, or a token did not grow",
        figures.violations
    );
    ExitCode::FAILURE
}

fn table(report: &Report) -> Table {
    let figures = &report.figures;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "ours", "raw", "ratio"]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut row = |name: String, ours: String, raw: Option<String>, ratio: Option<f64>| {
        let ratio = ratio.map(|ratio| format!("{ratio:.3}"));
        table.add_row([
            name,
            ours,
            raw.unwrap_or_default(),
            ratio.unwrap_or_default(),
        ]);
    };
    if let Some(rate) = figures.rate {
        let (name, raw) = (report.rate_of.to_owned(), figures.raw_rate.map(number));
        row(name, number(rate), raw, figures.rate_vs_raw);
    }
    let raw_p50 = figures.raw_p50_us.map(|raw| raw.to_string());
    for (quantile, ours, raw, ratio) in [
        ("p50", figures.p50_us, raw_p50, figures.p50_vs_raw),
        ("p90", figures.p90_us, None, None),
        ("p99", figures.p99_us, None, None),
        ("max", figures.max_us, None, None),
    ] {
        if let Some(ours) = ours {
            let name = format!("{}, {quantile}, us", report.times_of);
            row(name, ours.to_string(), raw, ratio);
        }
    }
    for (name, value) in ours_alone(figures) {
        if let Some(value) = value {
            row(name.to_owned(), value, None, None);
        }
    }
    for (name, value) in &report.more {
        row((*name).to_owned(), value.clone(), None, None);
    }
    table
}

/// Returns the figures that the raw commands do not have.
fn ours_alone(figures: &Figures) -> [(&'static str, Option<String>); 6] {
    let trips = figures.round_trips_per_acquire;
    let tasks = figures.task_min.zip(figures.task_max);
    let tasks = tasks.filter(|_| figures.tasks > 1);
    let shares = figures.process_shares.as_ref();
    let shares = shares.filter(|shares| shares.len() > 1);
    let processor = figures.cpu_pct;
    [
        ("violations", Some(figures.violations.to_string())),
        (
            "round trips per acquire",
            trips.map(|trips| format!("{trips:.3}")),
        ),
        (
            "locks of a task, min / max",
            tasks.map(|(min, max)| format!("{min} / {max}")),
        ),
        (
            "shares of the processes, %",
            shares.map(|shares| percent(shares)),
        ),
        (
            "processor time, % of a core",
            processor.map(|percent| format!("{percent:.2}")),
        ),
        (
            "memory a lock, bytes",
            figures.bytes_per_lock.map(|bytes| bytes.to_string()),
        ),
    ]
}

fn percent(shares: &[f64]) -> String {
    let shares: Vec<String> = shares
        .iter()
        .map(|share| format!("{:.1}", share * 100.0))
        .collect();
    shares.join(" / ")
}

fn plural(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Formats a number with one decimal place below 100, and none above.
pub(crate) fn number(number: f64) -> String {
    match number {
        number if number < 100.0 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}
