//! What ends a command: a store that cannot be reached, a process that broke.

use std::error::Error;

/// An error that nothing can be done about here but to say it.
pub(crate) type Problem = Box<dyn Error + Send + Sync>;

/// The message of an error and of everything behind it.
pub(crate) fn in_full(problem: &dyn Error) -> String {
    let mut text = problem.to_string();
    let mut behind = problem.source();
    while let Some(source) = behind {
        let message = source.to_string();
        // Some errors already repeat what is behind them.
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        behind = source.source();
    }
    text
}
