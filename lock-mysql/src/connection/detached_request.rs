//! A request under way, which nothing stops.

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

/// The time that the answer to a request that was given up is waited for: longer than InnoDB waits
/// for a row.
const FINISH_LIMIT: Duration = Duration::from_secs(2);

type Exchange = Pin<Box<dyn Future<Output = (Lent, Result<StatementResults, Failure>)> + Send>>;

/// Asks on a lent connection. Dropping it before the answer is there does not stop it: it goes on
/// in the background, so that the connection stays usable and its claim can be
/// [settled](InFlightByClaim).
pub(crate) struct DetachedRequest {
    exchange: Option<Exchange>,
    pool: Arc<Pool>,
    begun: bool,
    claim: Option<(ClaimId, Arc<InFlightByClaim>)>,
    interruption: Option<Interruption>,
}

impl DetachedRequest {
    /// A request that leaves the connection clean, if it is answered.
    pub(crate) fn new(pool: &Arc<Pool>, lent: Lent, statements: String) -> Self {
        Self::on(pool, lent, statements, true)
    }

    /// A request that leaves a transaction open.
    pub(crate) fn leaving_open(pool: &Arc<Pool>, lent: Lent, statements: String) -> Self {
        Self::on(pool, lent, statements, false)
    }

    fn on(pool: &Arc<Pool>, lent: Lent, statements: String, closes: bool) -> Self {
        let exchange = async move {
            let mut lent = lent;
            let answer = lent.ask(&statements).await;
            if matches!(answer, Err(Failure::ReadOnly(_))) && lent.used {
                // Another server may be the primary by now, and a new connection leads to it.
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

    /// Has it remembered whose it is when it goes on in the background.
    pub(crate) fn of(mut self, claim: ClaimId, in_flight: &Arc<InFlightByClaim>) -> Self {
        self.claim = Some((claim, Arc::clone(in_flight)));
        self
    }

    /// Has `end` end the connection on the server once the answer was not waited for during
    /// `patience`, and when the connection broke before.
    pub(crate) fn interrupted_after(
        mut self,
        patience: Duration,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let end = Box::pin(end);
        self.interruption = Some(Interruption { patience, end });
        self
    }

    /// Ends a connection that has broken, maybe together with its runtime: what it was asked may
    /// still arrive.
    fn end_connection(&mut self) {
        let Some(Interruption { end, .. }) = self.interruption.take() else {
            return;
        };
        let settling = self.settling();
        self.pool.background.spawn(async move {
            let _settling = settling;
            end.await
        });
    }

    fn settling(&mut self) -> Option<InFlightGuard> {
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
        let settling = self.settling();
        let interruption = self.interruption.take();
        self.pool.background.spawn(async move {
            let _settling = settling;
            match interruption {
                Some(interruption) => interruption.of(exchange).await,
                // Its connection may have died without a word.
                None => drop(tokio::time::timeout(FINISH_LIMIT, exchange).await),
            }
        });
    }
}

/// Returns true if the server has said what it has done.
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
        // The server closes the connection behind a packet that is too large.
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

/// Ends a request on the server that is not waited for any more, after a while in which it may end
/// by itself.
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
                // Its connection has died, maybe with its runtime, and the server may not know.
                self.end.await;
            }
            return;
        }
        let mut end = self.end;
        // Each is awaited at most once after it is ready.
        tokio::select! {
            // Its answer may never come, and nothing depends on it.
            () = &mut end => {}
            (mut lent, _) = &mut exchange => {
                // Kept until then and closed, or the interruption might hit the next request on the
                // connection.
                end.await;
                lent.mark_broken();
            }
        }
    }
}

/// The numbers of requests that go on in the background, by their claims: nothing else may be asked
/// for these meanwhile, or a clean-up would overtake what it cleans up.
#[derive(Debug, Default)]
pub(crate) struct InFlightByClaim(Mutex<HashMap<ClaimId, watch::Sender<usize>>>);

/// One of a claim's requests, until this is dropped.
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

    /// Returns what waits until nothing of `claim` goes on in the background; `None` if nothing
    /// does.
    pub(crate) fn settled(&self, claim: ClaimId) -> Option<impl Future<Output = ()> + use<>> {
        let mut count = self.0.lock().get(&claim)?.subscribe();
        Some(async move {
            // An error says that the entry was removed, which it is with the last request.
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
