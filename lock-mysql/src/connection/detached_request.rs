//! A request that continues in the background when its caller gives up.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lock_core::backend::{ClaimId, Mutex};
use tokio::sync::watch;

use crate::connection::pool::{Lent, Pool};
use crate::connection::session::StatementResults;
use crate::error::Failure;

/// Time limit of the answer to a request that was given up. Longer than InnoDB waits for a row.
const FINISH_LIMIT: Duration = Duration::from_secs(2);

type Exchange = Pin<Box<dyn Future<Output = (Lent, Result<StatementResults, Failure>)> + Send>>;

/// A request on a lent connection, which continues in the background if it is dropped.
///
/// So the connection stays usable, and its claim can be [settled](InFlightByClaim).
pub(crate) struct DetachedRequest {
    exchange: Option<Exchange>,
    pool: Arc<Pool>,
    begun: bool,
    claim: Option<(ClaimId, Arc<InFlightByClaim>)>,
    interruption: Option<Interruption>,
}

impl DetachedRequest {
    /// Creates a request that leaves the connection without a transaction, if it is answered.
    pub(crate) fn new(pool: &Arc<Pool>, lent: Lent, statements: String) -> Self {
        Self::on(pool, lent, statements, true)
    }

    /// Creates a request that leaves a transaction open.
    pub(crate) fn leaving_open(pool: &Arc<Pool>, lent: Lent, statements: String) -> Self {
        Self::on(pool, lent, statements, false)
    }

    fn on(pool: &Arc<Pool>, lent: Lent, statements: String, closes: bool) -> Self {
        let exchange = async move {
            let mut lent = lent;
            let answer = lent.ask(&statements).await;
            if matches!(answer, Err(Failure::ReadOnly(_))) && lent.used {
                // Another server may be the primary by now, and a new connection leads to that
                // server.
                lent.demoted();
            } else if is_answer(&answer) && (closes || answer.is_err()) {
                lent.mark_reusable();
            }
            (lent, answer)
        };
        Self {
            exchange: Some(Box::pin(exchange)),
            pool: Arc::clone(pool),
            begun: false,
            claim: None,
            interruption: None,
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
        let end = Box::pin(end);
        self.interruption = Some(Interruption { patience, end });
        self
    }

    /// Ends a connection that broke, perhaps with its runtime. Its request may still reach the
    /// server.
    fn end_connection(&mut self) {
        let Some(Interruption { end, .. }) = self.interruption.take() else {
            return;
        };
        let settling = self.in_flight();
        self.pool.background.spawn(async move {
            let _settling = settling;
            end.await
        });
    }

    fn in_flight(&mut self) -> Option<InFlightGuard> {
        let (claim, in_flight) = self.claim.take()?;
        Some(in_flight.enter(claim))
    }
}

impl Future for DetachedRequest {
    type Output = (Lent, Result<StatementResults, Failure>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.begun = true;
        let exchange = self.exchange.as_mut();
        let outcome = exchange
            .expect("polled after its end")
            .as_mut()
            .poll(context);
        if let Poll::Ready((_, answer)) = &outcome {
            self.exchange = None;
            if !is_answer(answer) {
                self.end_connection();
            }
        }
        outcome
    }
}

impl Drop for DetachedRequest {
    fn drop(&mut self) {
        let Some(exchange) = self.exchange.take().filter(|_| self.begun) else {
            return;
        };
        let settling = self.in_flight();
        let interruption = self.interruption.take();
        self.pool.background.spawn(async move {
            let _settling = settling;
            match interruption {
                Some(interruption) => interruption.of(exchange).await,
                // Limited, since the connection may have died without an error.
                None => drop(tokio::time::timeout(FINISH_LIMIT, exchange).await),
            }
        });
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
            | Failure::Denied(_),
        ) => true,
        // The server closes the connection after a packet that is too large.
        Err(
            Failure::NoAnswer(_)
            | Failure::Working(_)
            | Failure::Blocked(_)
            | Failure::Refused(_)
            | Failure::TooLarge(_),
        ) => false,
        Err(Failure::Failed(error)) => !error.is_retryable(),
    }
}

/// The end, on the server, of a request whose caller gave up, after `patience` for its answer.
struct Interruption {
    patience: Duration,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Interruption {
    async fn of(self, mut exchange: Exchange) {
        let ended = tokio::time::timeout(self.patience, &mut exchange);
        if !self.patience.is_zero()
            && let Ok((_lent, answer)) = ended.await
        {
            if !is_answer(&answer) {
                // The connection died, perhaps with its runtime, and the server may not have
                // noticed.
                self.end.await;
            }
            return;
        }
        let mut end = self.end;
        // Neither future is polled again after it was ready.
        tokio::select! {
            // The answer may never arrive, and nothing depends on it.
            () = &mut end => {}
            (mut lent, _) = &mut exchange => {
                // Kept until `end` is done and then closed: the kill might hit the connection's
                // next request.
                end.await;
                lent.mark_broken();
            }
        }
    }
}

/// The number of requests that continue in the background, by claim.
///
/// Invariant: no other request is sent for a claim meanwhile. Why: a clean-up would overtake the
/// take that it cleans up. Breaks if: a request for the claim does not wait for
/// [`settled`](Self::settled).
#[derive(Debug, Default)]
pub(crate) struct InFlightByClaim(Mutex<HashMap<ClaimId, watch::Sender<usize>>>);

/// A background request of a claim, which is counted until this is dropped.
struct InFlightGuard {
    claim: ClaimId,
    in_flight: Arc<InFlightByClaim>,
}

impl InFlightByClaim {
    fn enter(self: &Arc<Self>, claim: ClaimId) -> InFlightGuard {
        let mut in_flight = self.0.lock();
        let count = in_flight.entry(claim).or_default();
        count.send_modify(|count| *count += 1);
        InFlightGuard {
            claim,
            in_flight: Arc::clone(self),
        }
    }

    /// Returns a future that waits until `claim` has no background requests; `None` if it has none.
    pub(crate) fn settled(&self, claim: ClaimId) -> Option<impl Future<Output = ()> + use<>> {
        let mut count = self.0.lock().get(&claim)?.subscribe();
        Some(async move {
            // An error means that the entry was removed, which happens with the last request.
            let _settled = count.wait_for(|count| *count == 0).await;
        })
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut in_flight = self.in_flight.0.lock();
        if let Entry::Occupied(entry) = in_flight.entry(self.claim) {
            entry.get().send_modify(|count| *count -= 1);
            if *entry.get().borrow() == 0 {
                entry.remove();
            }
        }
    }
}
