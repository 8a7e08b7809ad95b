//! A request that continues in the background when its caller gives up.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{ClaimId, Detached, DetachedWork, Mutex};
use tokio::runtime::Handle;

use crate::connection::in_flight::{InFlightByClaim, InFlightGuard};
use crate::connection::pool::{Lent, Pool};
use crate::connection::session::StatementResults;
use crate::error::Failure;

/// Time limit of the answer to a request that was given up. Longer than InnoDB waits for a row.
const FINISH_LIMIT: Duration = Duration::from_secs(2);

/// The answer to a request, and its connection.
pub(crate) type Reply = (Lent, Result<StatementResults, Failure>);

/// The end of a connection on the server.
type End = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A request on a lent connection, which continues in the background if it is dropped.
///
/// So the connection stays usable, and its claim can be [settled](InFlightByClaim).
pub(crate) struct Request {
    lent: Lent,
    statements: String,
    leaves_open: bool,
    background: Handle,
    claim: Option<(ClaimId, Arc<InFlightByClaim>)>,
    interruption: Option<(Duration, End)>,
}

impl Request {
    /// Creates a request that leaves the connection without a transaction, if it is answered.
    pub(crate) fn new(pool: &Arc<Pool>, lent: Lent, statements: String) -> Self {
        Self {
            lent,
            statements,
            leaves_open: false,
            background: pool.background.clone(),
            claim: None,
            interruption: None,
        }
    }

    /// Creates a request that leaves a transaction open.
    pub(crate) fn leaving_open(pool: &Arc<Pool>, lent: Lent, statements: String) -> Self {
        Self {
            leaves_open: true,
            ..Self::new(pool, lent, statements)
        }
    }

    /// Assigns the request to `claim`: while in the background, it is counted for the claim.
    pub(crate) fn of(mut self, claim: ClaimId, in_flight: &Arc<InFlightByClaim>) -> Self {
        self.claim = Some((claim, Arc::clone(in_flight)));
        self
    }

    /// Sets `end`, which ends the connection on the server if it breaks, or the caller gives up.
    ///
    /// A request whose caller gave up has `patience` for its answer first.
    pub(crate) fn interrupted_after(
        mut self,
        patience: Duration,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        self.interruption = Some((patience, Box::pin(end)));
        self
    }

    /// Sends the request, at the first poll of the returned future.
    pub(crate) fn send(self) -> Detached<Reply> {
        let Self {
            mut lent,
            statements,
            leaves_open,
            background,
            claim,
            interruption,
        } = self;
        let (patience, end) = interruption.unzip();
        let end = Mutex::new(end);
        let interruption = Arc::new(Interruption { end, claim });
        let (if_broken, runtime) = (Arc::clone(&interruption), background.clone());
        let exchange = async move {
            let answer = lent.ask(&statements).await;
            if matches!(answer, Err(Failure::ReadOnly(_))) && lent.used {
                // Another server may be the primary by now, and a new connection leads to that
                // server.
                lent.demoted();
            } else if is_answer(&answer) && (!leaves_open || answer.is_err()) {
                lent.mark_reusable();
            }
            if !is_answer(&answer) {
                if_broken.end_connection(&runtime);
            }
            (lent, answer)
        };
        Detached::new(&background, exchange).finished_by(move |exchange| {
            let settling = interruption.in_flight();
            async move {
                let _settling = settling;
                interruption.finish(exchange, patience).await;
            }
        })
    }
}

/// The interruption of a request whose connection broke or whose caller gave up.
struct Interruption {
    /// Taken by what happens first.
    end: Mutex<Option<End>>,
    claim: Option<(ClaimId, Arc<InFlightByClaim>)>,
}

impl Interruption {
    fn in_flight(&self) -> Option<InFlightGuard> {
        let (claim, in_flight) = self.claim.as_ref()?;
        Some(in_flight.enter(*claim))
    }

    /// Ends a connection that broke, perhaps with its runtime. Its request may still reach the
    /// server.
    fn end_connection(&self, background: &Handle) {
        let Some(end) = self.end.lock().take() else {
            return;
        };
        let settling = self.in_flight();
        background.spawn(async move {
            let _settling = settling;
            end.await;
        });
    }

    /// Waits for the answer that no caller waits for any more, and ends the connection after
    /// `patience`.
    async fn finish(&self, mut exchange: DetachedWork<Reply>, patience: Option<Duration>) {
        // Limited, since the connection may have died without an error.
        let patience = patience.unwrap_or(FINISH_LIMIT);
        if !patience.is_zero() && tokio::time::timeout(patience, &mut exchange).await.is_ok() {
            return;
        }
        let Some(mut end) = self.end.lock().take() else {
            return;
        };
        // Neither future is polled again after it was ready.
        tokio::select! {
            // The answer may never arrive, and nothing depends on it.
            () = &mut end => {}
            (mut lent, _) = &mut exchange => {
                // Closed when `end` is done: the kill might hit the connection's next request.
                lent.mark_broken();
                end.await;
            }
        }
    }
}

/// Returns true if the server has reported what it did.
fn is_answer(answer: &Result<StatementResults, Failure>) -> bool {
    match answer {
        Ok(_)
        | Err(
            Failure::Locked
            | Failure::Deadlock
            | Failure::Gone
            | Failure::ReadOnly(_)
            | Failure::NoTable(_)
            | Failure::NoColumn(_)
            | Failure::Denied(_),
        ) => true,
        // The server closes the connection after a packet that is too large.
        Err(
            Failure::NoAnswer(_)
            | Failure::Working(_)
            | Failure::Blocked(_)
            | Failure::Unexplained
            | Failure::Refused(_)
            | Failure::TooLarge(_),
        ) => false,
        Err(Failure::Failed(error)) => !error.is_retryable(),
    }
}
