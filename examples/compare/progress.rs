//! Shows the progress of the comparison.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::stage::problem::Problem;

/// A bar on a terminal, or a line for each step elsewhere, both on stderr.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Result<Self, Problem> {
        if !std::io::stderr().is_terminal() {
            return Ok(Self { bar: None });
        }
        let style =
            ProgressStyle::with_template("{msg:30} [{bar:40}] {elapsed}, about {eta} left")?;
        let bar = ProgressBar::new(steps.try_into()?).with_style(style);
        Ok(Self { bar: Some(bar) })
    }

    /// Shows the next step of a store.
    pub(crate) fn step(&self, store: &str, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{store}: {what}"));
                bar.inc(1);
            }
            None => eprintln!("{store}: {what}"),
        }
    }

    /// Prints a line that stays above the bar.
    pub(crate) fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("compare: {what}")),
            None => eprintln!("compare: {what}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
