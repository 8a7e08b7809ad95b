//! Operations on many keys, as many in one transaction as the servers take.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Txn, TxnOp, TxnOpResponse};

use crate::connection::shared::{SharedConnection, transact};
use crate::error::{Failure, unexpected};
use crate::queue::revision;

impl SharedConnection {
    /// Sends an `operation` for each of `items`, and reads each outcome together with the revision
    /// of its transaction. Each request may take `limit`, and may be repeated.
    ///
    /// # Errors
    ///
    /// If a batch fails, the batches before it have been carried out.
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
                    self.batch_size().halve(batch.len());
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(results)
    }
}
