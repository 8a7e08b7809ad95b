//! Operations on many keys, as many in one transaction as the servers take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Txn, TxnOp, TxnOpResponse};

use crate::client::transact;
use crate::connection::shared::SharedConnection;
use crate::error::{Failure, unexpected};
use crate::queue::revision;

/// Operations in one transaction at most; servers allow 128 by default.
const LARGEST: usize = 100;

/// Number of operations that the servers are known to take in one transaction.
///
/// They limit operations (`--max-txn-ops`) and bytes (`--max-request-bytes`), and tell neither limit. So
/// the number is halved whenever a batch is refused for its size.
#[derive(Debug)]
pub(crate) struct BatchSize(AtomicUsize);

impl BatchSize {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(LARGEST))
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that a batch of `size` was too large.
    fn was_too_large(&self, size: usize) {
        self.0.fetch_min((size / 2).max(1), Ordering::Relaxed);
    }
}

impl SharedConnection {
    /// Makes an `operation` for each of `items`, and reads what came of each, with the revision that the
    /// servers had come to. Each request may take `limit`, and may be repeated.
    ///
    /// When it fails, those before in the order of `items` may have been made.
    pub(crate) async fn ask_for_all<I, R>(
        self: &Arc<Self>,
        limit: Duration,
        items: &[I],
        operation: impl Fn(&I) -> TxnOp,
        read: impl Fn(i64, &TxnOpResponse) -> R,
    ) -> Result<Vec<R>, Failure> {
        let mut results = Vec::with_capacity(items.len());
        while results.len() < items.len() {
            let left = &items[results.len()..];
            let batch = &left[..left.len().min(self.batch_size().get())];
            let operations: Vec<TxnOp> = batch.iter().map(&operation).collect();
            let asking = |client| transact(client, Txn::new().and_then(operations.clone()));
            match self.ask(limit, asking).await {
                Ok(answer) => {
                    let (now, answers) = (revision(&answer), answer.op_responses());
                    let now = now.map_err(Failure::Unknown)?;
                    if answers.len() != batch.len() {
                        return Err(Failure::Unknown(unexpected(
                            "operations without an outcome",
                        )));
                    }
                    results.extend(answers.iter().map(|answer| read(now, answer)));
                }
                Err(Failure::TooLarge(_)) if batch.len() > 1 => {
                    self.batch_size().was_too_large(batch.len());
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_halved_until_one_is_left() {
        let size = BatchSize::new();
        let mut sizes = Vec::new();
        while size.get() > 1 {
            size.was_too_large(size.get());
            sizes.push(size.get());
        }
        assert_eq!(sizes, [50, 25, 12, 6, 3, 1]);
        size.was_too_large(100);
        assert_eq!(size.get(), 1, "a late refusal raises nothing");
    }
}
