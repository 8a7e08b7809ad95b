//! Prints the report: a table, or JSON for programs; and determines the exit status.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::process::ExitCode;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::control::Control;
use crate::run::Outcome;
use crate::stage::problem::Problem;

#[derive(Serialize)]
struct Report<'a> {
    seed: u64,
    grants: usize,
    contended_grants: usize,
    faults: &'a BTreeMap<String, usize>,
    losses: usize,
    removals: usize,
    violations: usize,
    max_recovery_ms: f64,
}

impl<'a> Report<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let verdict = &outcome.verdict;
        let longest = verdict.longest_recovery.unwrap_or_default();
        Self {
            seed: outcome.seed,
            grants: verdict.grants,
            contended_grants: verdict.contended_grants,
            faults: &verdict.faults,
            losses: verdict.losses,
            removals: verdict.removals,
            violations: outcome.violations(),
            max_recovery_ms: (longest.as_secs_f64() * 10_000.0).round() / 10.0,
        }
    }
}

/// Prints the outcome of a run, and all complaints.
pub(crate) fn print(outcome: &Outcome, arguments: &Arguments) -> Result<ExitCode, Problem> {
    complain(outcome);
    let report = Report::of(outcome);
    if arguments.json {
        writeln!(stdout(), "{}", serde_json::to_string(&report)?)?;
    } else {
        print_table(&report, outcome)?;
    }
    Ok(match outcome.violations() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Prints the violations and complaints on stderr, with the place of the records.
fn complain(outcome: &Outcome) {
    const SHOWN: usize = 10;

    let violations = outcome.verdict.violations.iter().map(ToString::to_string);
    let all: Vec<String> = violations
        .chain(outcome.complaints.iter().cloned())
        .collect();
    for violation in all.iter().take(SHOWN) {
        eprintln!("torture: {violation}");
    }
    if all.len() > SHOWN {
        eprintln!("torture: and {} more", all.len() - SHOWN);
    }
    if let Some(kept) = &outcome.kept {
        let kept = kept.display();
        match all.len() {
            0 => eprintln!("torture: the records are in {kept}"),
            _ => eprintln!(
                "torture: --seed {} draws the same again; records and pictures (violation-1.svg) are in {kept}",
                outcome.seed
            ),
        }
    }
}

fn print_table(report: &Report<'_>, outcome: &Outcome) -> Result<(), Problem> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "seed",
        "grants",
        "contended",
        "losses",
        "removals",
        "violations",
        "recovery",
    ]);
    let share = 100.0 * report.contended_grants as f64 / report.grants.max(1) as f64;
    table.add_row([
        report.seed.to_string(),
        report.grants.to_string(),
        format!("{share:.0} %"),
        report.losses.to_string(),
        report.removals.to_string(),
        report.violations.to_string(),
        format!("{:.0} ms", report.max_recovery_ms),
    ]);
    let faults = report
        .faults
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"));
    let faults: Vec<String> = faults.collect();
    writeln!(stdout(), "{table}")?;
    writeln!(
        stdout(),
        "faults while a lock was held: {}",
        faults.join(", ")
    )?;
    let updates = outcome.fenced.updates;
    writeln!(
        stdout(),
        "of {updates} updates by token, {} were lost",
        outcome.fenced.lost
    )?;
    Ok(())
}

/// Prints the lost updates without and with tokens.
///
/// Returns failure if an update was lost despite tokens, or if none was lost without: then the run
/// has shown nothing.
pub(crate) fn print_control(control: &Control, arguments: &Arguments) -> Result<ExitCode, Problem> {
    let Control {
        stops,
        plain,
        fenced,
    } = control;
    if arguments.json {
        writeln!(stdout(), "{}", serde_json::to_string(control)?)?;
    } else {
        writeln!(
            stdout(),
            "holders were stopped {stops} times\n\
             without a look at tokens, {} of {} updates were lost\n\
             with it, {} of {}, and those of holders that were overtaken were refused",
            plain.lost,
            plain.updates,
            fenced.lost,
            fenced.updates,
        )?;
    }
    Ok(match (plain.lost, fenced.lost) {
        (1.., 0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
