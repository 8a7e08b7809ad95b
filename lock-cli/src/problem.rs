//! Errors that end a command: an unreachable store, a broken process.

use std::error::Error;

/// An error that the program can only print.
pub(crate) type Problem = Box<dyn Error + Send + Sync>;

/// Returns the messages of an error and of all its sources.
pub(crate) fn in_full(problem: &dyn Error) -> String {
    let mut text = problem.to_string();
    let mut behind = problem.source();
    while let Some(source) = behind {
        let message = source.to_string();
        // Some errors already repeat their source.
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        behind = source.source();
    }
    text
}
