//! Prints the report: a table, or JSON for programs; and determines the exit status.

use std::io::Write;
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::coupon::arguments::Arguments;
use crate::coupon::figures::Figures;
use crate::stage::problem::Problem;

const HEADINGS: [&str; 10] = [
    "strategy",
    "sold",
    "oversold",
    "lost\nupdates",
    "double\norders",
    "stuck",
    "claims/s",
    "p50 ms",
    "p99 ms",
    "what went wrong",
];

#[derive(Serialize)]
struct Report<'a> {
    strategies: &'a [Figures],
}

const ACCIDENTS: &str = "\npolylock, multi-key and reentrant met every accident; each other strategy only what breaks it.";

/// Prints one JSON object.
pub(crate) fn print_json(rows: &[Figures]) -> Result<(), Problem> {
    let json = serde_json::to_string(&Report { strategies: rows })?;
    Ok(writeln!(std::io::stdout(), "{json}")?)
}

/// Prints a table.
pub(crate) fn print_table(rows: &[Figures], arguments: &Arguments) -> Result<(), Problem> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(HEADINGS);
    for row in rows {
        table.add_row(cells(row, arguments.stock));
    }
    for column in table.column_iter_mut().skip(1).take(HEADINGS.len() - 2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let place = if arguments.separate_processes()? {
        "processes"
    } else {
        "threads"
    };
    let correct = rows.iter().filter(|row| row.strategy.is_correct()).count();
    let accidents = match correct > 0 && correct < rows.len() {
        true => ACCIDENTS,
        false => "",
    };
    writeln!(
        std::io::stdout(),
        "{} coupons, {} buyers, instances: {} ({place})\n{table}{accidents}",
        arguments.stock,
        arguments.buyers,
        arguments.instances
    )?;
    Ok(())
}

/// Returns success unless a strategy without a flaw was not clean.
pub(crate) fn status(rows: &[Figures], stock: u32) -> ExitCode {
    let failed = rows
        .iter()
        .any(|row| row.strategy.is_correct() && !row.is_clean(stock));
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn cells(row: &Figures, stock: u32) -> [String; HEADINGS.len()] {
    let went_wrong = match row.strategy {
        strategy if strategy.is_correct() && row.is_clean(stock) => {
            "nothing, and it met every accident"
        }
        _ if row.is_clean(stock) => "nothing",
        strategy => strategy.accident(),
    };
    [
        row.strategy.name().to_owned(),
        row.sold.to_string(),
        row.oversold.to_string(),
        row.lost_updates.to_string(),
        row.double_orders.to_string(),
        row.stuck.to_string(),
        format!("{:.0}", row.claims_per_s),
        format!("{:.1}", row.p50_ms),
        format!("{:.1}", row.p99_ms),
        went_wrong.to_owned(),
    ]
}
