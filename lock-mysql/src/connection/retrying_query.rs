//! A packet that is answered sooner or later.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Backoff, Clock, Moment};
use lock_core::{ErrorKind, Result};

use crate::connection::connection_id::ConnectionId;
use crate::connection::detached_request::DetachedRequest;
use crate::connection::pool::{Lent, Pool};
use crate::connection::session::StatementResults;
use crate::error::Failure;

/// The claim that a query may win something for. Defaults are for a query that wins nothing.
pub(crate) trait QueryClaim {
    /// Has the request on `connection` known as the claim's, and ended there, if it is given up.
    fn adopt(&self, request: DetachedRequest, _: &ConnectionId) -> Result<DetachedRequest> {
        Ok(request)
    }

    /// Asks why the request on `connection` was not answered within `limit`, while it is under way.
    async fn silence(&self, _: &ConnectionId, limit: Duration) -> Failure {
        Failure::NoAnswer(limit)
    }
}

/// For queries that win nothing.
pub(crate) struct NoClaim;

impl QueryClaim for NoClaim {}

/// One packet with what is needed to send it again: after a deadlock, and on a new connection when
/// the one it was sent on had been closed while it was idle. So it has to do no harm when it is
/// done twice.
pub(crate) struct RetryingQuery<'a, O, S> {
    pool: &'a Arc<Pool>,
    /// The first connection to ask on instead of one of `pool`, such as one that is idle in another
    /// pool.
    pub(crate) first: Option<Lent>,
    claim: O,
    /// The time that it waits for a connection, at least as long as for an answer. That is this
    /// client's own doing and no silence of the server's.
    queue: Duration,
    /// Makes the statements for a connection.
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

    /// Asks until it is answered, at most for `limit` once there is a connection. Returns when the
    /// packet was sent that was answered, too.
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
                    // Nothing was sent.
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
            let request = DetachedRequest::new(self.pool, session, statements);
            let mut request = self.claim.adopt(request, &connection_id)?;
            let sent = Clock::Boot.now();
            let Some((_, answer)) = deadlines.timeout(ends.since(sent), &mut request).await else {
                let failure = Box::pin(self.claim.silence(&connection_id, limit)).await;
                if matches!(failure, Failure::NoAnswer(_)) {
                    // What was idle beside it may be as silent.
                    self.pool.idle.close_all();
                }
                return Err(failure);
            };
            let over = Clock::Boot.now() >= ends;
            is_in_doubt |= matches!(&answer, Err(Failure::Failed(error)) if error.is_retryable());
            match answer {
                Err(Failure::Deadlock) if !over => {
                    // A release may run outside of any runtime, where there is no other timer.
                    deadlines
                        .timeout(backoff.next_pause(), pending::<()>())
                        .await;
                }
                Err(Failure::Failed(error)) if used && error.is_retryable() && !over => {
                    self.pool.idle.close_all();
                }
                // Those that were idle are closed by now.
                Err(Failure::ReadOnly(_)) if used && !over => {}
                // What was sent before, over the connection that broke, may have been done.
                Err(Failure::Denied(error)) if is_in_doubt => return Err(error.into()),
                Err(failure) => return Err(failure),
                Ok(answer) => return Ok((answer, sent)),
            }
        }
    }
}

impl Pool {
    /// Asks what concerns no claim.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        statements: String,
        limit: Duration,
    ) -> Result<StatementResults, Failure> {
        let query = RetryingQuery::new(self, NoClaim, limit, |_| statements.clone());
        Ok(query.run(limit).await?.0)
    }
}
