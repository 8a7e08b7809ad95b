//! Counts the tests of a `conformance!`, and prints the summary after the last of them.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::run::selection::Selection;
use crate::{Case, Outcome, Summary};

static REPORTS: Mutex<BTreeMap<&'static str, Report>> = Mutex::new(BTreeMap::new());

/// The tests of one `conformance!` that have ended.
#[derive(Default)]
struct Report {
    summary: Summary,
    failed: usize,
    absent: usize,
}

/// The end of a test, which counts as a failure until [`tell`](Self::tell) is called.
pub(crate) struct Ending {
    tests: &'static str,
    case: Case,
    is_told: bool,
}

impl Ending {
    pub(crate) fn of(tests: &'static str, case: Case) -> Self {
        Self {
            tests,
            case,
            is_told: false,
        }
    }

    /// Ends the test with an outcome, or with `None` if the store is not on this machine.
    pub(crate) fn tell(mut self, outcome: Option<Outcome>) {
        self.is_told = true;
        let case = self.case;
        count(self.tests, |report| match outcome {
            Some(outcome) => report.summary.add(case, outcome),
            None => report.absent += 1,
        });
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.is_told {
            count(self.tests, |report| report.failed += 1);
        }
    }
}

fn count(tests: &'static str, ended: impl FnOnce(&mut Report)) {
    let mut reports = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let report = reports.entry(tests).or_default();
    ended(report);
    if report.ended() == selected(tests) {
        // Print past the capture of the test harness, which hides the output of tests that pass.
        let _unprinted = writeln!(std::io::stderr(), "\n{tests}: {}", report.text());
    }
}

impl Report {
    fn ended(&self) -> usize {
        let summary = &self.summary;
        summary.proved().len() + summary.skipped().len() + self.failed + self.absent
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.failed > 0 {
            text += &format!("{} failed, ", self.failed);
        }
        if self.absent > 0 {
            text += &format!(
                "{} skipped, as the store is not on this machine, ",
                self.absent
            );
        }
        text + &self.summary.to_string()
    }
}

/// Returns how many of the tests of a module this process was asked to run.
fn selected(tests: &str) -> usize {
    let selection = Selection::of_this_process();
    // The names in the harness do not contain the test target.
    let module = tests.split_once("::").map(|(_, module)| module);
    let name = |case: &Case| match module {
        Some(module) => format!("{module}::{case}"),
        None => case.to_string(),
    };
    let cases = crate::cases().into_iter();
    cases.filter(|case| selection.has(&name(case))).count()
}
