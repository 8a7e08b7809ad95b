//! Prints the report: a table, or JSON for programs; and determines the exit status.

use std::io::Write;
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::refund::arguments::Arguments;
use crate::refund::figures::Figures;
use crate::refund::mechanism::Mechanism;
use crate::stage::problem::Problem;

const HEADINGS: [&str; 17] = [
    "mechanism",
    "at\nonce",
    "in\nturn",
    "compen-\nsation",
    "declined",
    "double",
    "over-\nrefunded",
    "lost",
    "wrong\nbooks",
    "too\nearly",
    "over-\ntaken",
    "refused",
    "blocked\nms",
    "round\ntrips",
    "refunds/s",
    "p50 ms",
    "p99 ms",
];

#[derive(Serialize)]
struct Report<'a> {
    mechanisms: &'a [Figures],
}

/// Prints one JSON object.
pub(crate) fn print_json(rows: &[Figures]) -> Result<(), Problem> {
    let json = serde_json::to_string(&Report { mechanisms: rows })?;
    Ok(writeln!(std::io::stdout(), "{json}")?)
}

/// Prints a table.
pub(crate) fn print_table(rows: &[Figures], arguments: &Arguments) -> Result<(), Problem> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(HEADINGS);
    for row in rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let place = if arguments.store.is_shared_by_processes()? {
        "processes"
    } else {
        "threads"
    };
    writeln!(
        std::io::stdout(),
        "{} trades at {} banks, {} ms between payments, peers: {} ({place}), of which {} are killed\n{table}",
        arguments.trades,
        arguments.banks,
        arguments.interval().as_millis(),
        arguments.peers,
        arguments.kills,
    )?;
    Ok(())
}

/// Returns failure if a mechanism other than `none` was not clean.
pub(crate) fn status(rows: &[Figures]) -> ExitCode {
    let failed = rows
        .iter()
        .any(|row| row.mechanism != Mechanism::None && !row.is_clean());
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn cells(row: &Figures) -> [String; HEADINGS.len()] {
    let known = |value: Option<f64>| value.map_or("?".to_owned(), |value| format!("{value:.1}"));
    [
        row.mechanism.name().to_owned(),
        row.at_once.to_string(),
        row.in_turn.to_string(),
        row.by_compensation.to_string(),
        row.declined.to_string(),
        row.double.to_string(),
        row.over_refunded.to_string(),
        row.lost.to_string(),
        row.wrong_books.to_string(),
        row.interval_violations.to_string(),
        row.order_violations.to_string(),
        row.refused_writes.to_string(),
        known(row.blocked_ms),
        known(row.round_trips),
        format!("{:.0}", row.refunds_per_s),
        format!("{:.1}", row.p50_ms),
        format!("{:.1}", row.p99_ms),
    ]
}
