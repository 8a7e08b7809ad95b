//! Shows the progress of a run on a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use super::problem::Problem;

/// Creates a bar on stderr that counts up to `count` and disappears when dropped.
///
/// It is hidden unless stderr is a terminal. `done` is the unit.
pub(crate) fn bar(name: &'static str, count: usize, done: &str) -> Result<ProgressBar, Problem> {
    if !std::io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let template = format!("{{msg:17}} [{{bar:40}}] {{pos}}/{{len}} {done}");
    let style = ProgressStyle::with_template(&template)?;
    let bar = ProgressBar::new(count.try_into()?);
    Ok(bar.with_style(style).with_message(name))
}
