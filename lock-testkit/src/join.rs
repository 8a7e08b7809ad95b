//! Tasks whose panics become panics of the case.

use tokio::task::{JoinError, JoinSet};

/// Waits for all tasks and returns their outputs; resumes the first panic of a task.
pub(crate) async fn join_all<T: 'static>(mut tasks: JoinSet<T>) -> Vec<T> {
    let mut outputs = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        outputs.push(joined(result));
    }
    outputs
}

/// Returns the output of a task that has ended, or resumes its panic.
pub(crate) fn joined<T>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|failure| std::panic::resume_unwind(failure.into_panic()))
}
