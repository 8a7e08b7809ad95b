//! Shows how far the comparison is.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::stage::problem::Problem;

/// A bar on a terminal, a line for each step anywhere else, both on stderr.
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

    /// The next step of a store begins.
    pub(crate) fn step(&self, store: &str, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{store}: {what}"));
                bar.inc(1);
            }
            None => eprintln!("{store}: {what}"),
        }
    }

    /// Says something that stays.
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
