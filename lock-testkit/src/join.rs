//! Tasks whose panics are the case's own.

use tokio::task::{JoinError, JoinSet};

/// Waits for every task; the first panic among them goes on here.
pub(crate) async fn join_all<T: 'static>(mut tasks: JoinSet<T>) -> Vec<T> {
    let mut outputs = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        outputs.push(joined(result));
    }
    outputs
}

/// The output of a task that has ended; its panic goes on here.
pub(crate) fn joined<T>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|failure| std::panic::resume_unwind(failure.into_panic()))
}
