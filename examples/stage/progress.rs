//! Shows on a terminal how far a run is.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use super::problem::Problem;

/// A bar on stderr that follows what is `done` of `count` and goes away with its value; nothing where
/// stderr is no terminal.
pub(crate) fn bar(name: &'static str, count: usize, done: &str) -> Result<ProgressBar, Problem> {
    if !std::io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let template = format!("{{msg:17}} [{{bar:40}}] {{pos}}/{{len}} {done}");
    let style = ProgressStyle::with_template(&template)?;
    let bar = ProgressBar::new(count.try_into()?);
    Ok(bar.with_style(style).with_message(name))
}
