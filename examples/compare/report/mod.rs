//! Writes the report: a table, a page, JSON for programs; and determines the exit status.

mod advice;
mod chart;
mod charts;
mod document;
mod metrics;
mod page;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};

use crate::arguments::Arguments;
use crate::figures::Comparison;
use crate::report::advice::advice;
use crate::stage::problem::Problem;

/// Fails before the measurement if a file cannot be written.
pub(crate) fn check(arguments: &Arguments) -> Result<(), Problem> {
    for file in arguments.html.iter().chain(&arguments.picture) {
        let opened = fs::OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|problem| format!("{}: {problem}", file.display()))?;
    }
    Ok(())
}

/// Prints the table or JSON, and writes the requested files.
pub(crate) fn print(comparison: &Comparison, arguments: &Arguments) -> Result<(), Problem> {
    if arguments.json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string(comparison)?)?;
    } else {
        print_table(comparison)?;
    }
    if let Some(file) = &arguments.html {
        write(file, &page::page(comparison)?)?;
    }
    if let Some(file) = &arguments.picture {
        write(file, &charts::picture(comparison)?)?;
    }
    Ok(())
}

/// Returns success if everything came out right on every store.
pub(crate) fn status(comparison: &Comparison) -> ExitCode {
    let all_clean = comparison.stores.iter().all(|store| store.is_clean());
    if all_clean && comparison.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print_table(comparison: &Comparison) -> Result<(), Problem> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let names = comparison.stores.iter().map(|store| store.name.clone());
    table.set_header(std::iter::once(String::new()).chain(names));
    for section in metrics::sections(comparison) {
        table.add_row([section.name.to_uppercase()]);
        for metric in section.metrics {
            table.add_row(std::iter::once(metric.name).chain(metric.cells));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut out = std::io::stdout();
    writeln!(out, "{table}")?;
    for one in advice(comparison) {
        writeln!(out, "{}: {}", one.question, one.answer)?;
        for reason in &one.reasons {
            writeln!(out, "  - {reason}")?;
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), Problem> {
    fs::write(file, text).map_err(|problem| format!("{}: {problem}", file.display()).into())
}
