//! Shows on a terminal how far a strategy is.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::problem::Problem;
use crate::strategy::Strategy;

/// A bar on stderr that follows the answers and goes away with its value; nothing where stderr is
/// no terminal.
pub(crate) fn bar(strategy: Strategy, submissions: usize) -> Result<ProgressBar, Problem> {
    if !std::io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let style = ProgressStyle::with_template("{msg:17} [{bar:40}] {pos}/{len} answered")?;
    let bar = ProgressBar::new(submissions.try_into()?);
    Ok(bar.with_style(style).with_message(strategy.name()))
}
