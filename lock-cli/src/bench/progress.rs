//! Shows the progress of a bench on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::problem::Problem;

/// A bar on stderr that disappears when dropped. It is hidden unless stderr is a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar for work that takes about `lasting`.
    pub(crate) fn of(name: &str, lasting: Duration) -> Result<Self, Problem> {
        if !std::io::stderr().is_terminal() {
            return Ok(Self::hidden());
        }
        let style = ProgressStyle::with_template("{msg:24} [{bar:40}] {percent}%")?;
        let bar = ProgressBar::new(milliseconds(lasting));
        Ok(Self(bar.with_style(style).with_message(name.to_owned())))
    }

    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Moves the bar by `time`.
    pub(crate) fn add(&self, time: Duration) {
        self.0.inc(milliseconds(time));
    }

    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
