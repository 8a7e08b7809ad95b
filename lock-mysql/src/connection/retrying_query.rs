//! A query that is repeated until it is answered.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Backoff, Clock, Moment};
use lock_core::{ErrorKind, Result};

use crate::connection::connection_id::ConnectionId;
use crate::connection::pool::{Lent, Pool};
use crate::connection::request::Request;
use crate::connection::session::StatementResults;
use crate::error::Failure;

/// The claim for which a query may win something. The defaults are for a query that wins nothing.
pub(crate) trait QueryClaim {
    /// Assigns the request to the claim, and ends it on `connection` if its caller gives up.
    fn adopt(&self, request: Request, _: &ConnectionId) -> Result<Request> {
        Ok(request)
    }

    /// Asks why the request on the connection was not answered within `limit`.
    ///
    /// The request has to be under way.
    async fn silence(&self, _: &ConnectionId, limit: Duration) -> Failure {
        Failure::NoAnswer(limit)
    }
}

/// The absence of a claim, for queries that win nothing.
pub(crate) struct NoClaim;

impl QueryClaim for NoClaim {}

/// A packet that is sent again after a deadlock, or if its idle connection turns out to be closed.
///
/// So its statements have to do no harm when they are executed twice.
pub(crate) struct RetryingQuery<'a, O, S> {
    pool: &'a Arc<Pool>,
    /// The connection of the first attempt, such as an idle connection of another pool.
    ///
    /// Default: a connection of `pool`.
    pub(crate) first: Option<Lent>,
    claim: O,
    /// Time limit of the wait for a connection, at least as long as for an answer.
    ///
    /// This wait is in the client's own queue, and no silence of the server.
    queue: Duration,
    /// Returns the statements for a connection.
    statements: S,
}

impl<'a, O: QueryClaim, S: Fn(&Lent) -> String> RetryingQuery<'a, O, S> {
    pub(crate) fn new(pool: &'a Arc<Pool>, claim: O, queue: Duration, statements: S) -> Self {
        Self {
            pool,
            first: None,
            claim,
            queue,
            statements,
        }
    }

    /// Sends the packet until it is answered, for at most `limit` once there is a connection.
    ///
    /// Returns the answer, and when the answered packet was sent.
    pub(crate) async fn run(
        mut self,
        limit: Duration,
    ) -> Result<(StatementResults, Moment), Failure> {
        let queue_ends = Clock::Boot.now().plus(self.queue.max(limit));
        let mut ends = None;
        let deadlines = &self.pool.deadlines;
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(20));
        let mut is_in_doubt = false;
        loop {
            let left = ends.unwrap_or(queue_ends).since(Clock::Boot.now());
            let session = match self.first.take() {
                Some(session) => session,
                None => match deadlines.timeout(left, self.pool.lend(left)).await {
                    Some(Ok(session)) => session,
                    // No packet was sent.
                    Some(Err(error)) if error.kind() == ErrorKind::Denied && !is_in_doubt => {
                        return Err(Failure::Denied(error));
                    }
                    Some(Err(error)) => return Err(error.into()),
                    None => return Err(Failure::NoAnswer(left)),
                },
            };
            let ends = *ends.get_or_insert_with(|| Clock::Boot.now().plus(limit));
            let used = session.used;
            let statements = (self.statements)(&session);
            let connection_id = session.connection_id.clone();
            let request = Request::new(self.pool, session, statements);
            let mut request = self.claim.adopt(request, &connection_id)?.send();
            let sent = Clock::Boot.now();
            let Some((_, answer)) = deadlines.timeout(ends.since(sent), &mut request).await else {
                let failure = Box::pin(self.claim.silence(&connection_id, limit)).await;
                if matches!(failure, Failure::NoAnswer(_)) {
                    // The idle connections may be as silent.
                    self.pool.idle.close_all();
                }
                return Err(failure);
            };
            let over = Clock::Boot.now() >= ends;
            is_in_doubt |= matches!(&answer, Err(Failure::Failed(error)) if error.is_retryable());
            match answer {
                Err(Failure::Deadlock) if !over => {
                    // A release may run outside of any runtime, where tokio's timer does not work.
                    deadlines
                        .timeout(backoff.next_pause(), pending::<()>())
                        .await;
                }
                Err(Failure::Failed(error)) if used && error.is_retryable() && !over => {
                    self.pool.idle.close_all();
                }
                // The request has closed the idle connections, so the next attempt opens a
                // connection.
                Err(Failure::ReadOnly(_)) if used && !over => {}
                // The server may have executed an earlier packet, whose connection broke.
                Err(Failure::Denied(error)) if is_in_doubt => return Err(error.into()),
                Err(failure) => return Err(failure),
                Ok(answer) => return Ok((answer, sent)),
            }
        }
    }
}

impl Pool {
    /// Sends a query that concerns no claim.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        statements: String,
        limit: Duration,
    ) -> Result<StatementResults, Failure> {
        let query = RetryingQuery::new(self, NoClaim, limit, |_| statements.clone());
        Ok(query.run(limit).await?.0)
    }
}
