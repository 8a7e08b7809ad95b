//! One acquisition: its requests to the server, and the wake-up of its waiter.

use std::future::pending;
use std::time::Duration;

use lock_core::backend::{Answer, Ask, Attempt, LastReply, Moment, Retry};
use lock_core::{Error, LockRequest, Result};

use crate::MySqlHold;
use crate::client::Client;
use crate::error::Failure;
use crate::lease::poller::WakeUp;
use crate::row::takes::RowWait;

/// Time limit of an answer, unless a shorter limit applies. Longer than InnoDB waits for a row.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// Time for which a waiter for a lease relies on the poller. The waiter also wakes when the poller
/// cannot look any more.
const ASK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// Pause before a waiter for a row asks again. The server has already waited for the row, unless a
/// lease blocks it.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

/// The attempts of one acquisition.
pub(crate) struct MySqlAttempt<'a> {
    client: &'a Client,
    request: &'a LockRequest,
    /// The last error that says why the server does not grant; `None` after the answer "held".
    told: Option<Error>,
    /// The limits of the next wait for a row.
    row_wait: RowWait,
    /// True if other claims of this process wait for the key. The first request then waits for the
    /// row at once.
    waits_at_once: bool,
    wake_up: Option<WakeUp>,
}

impl<'a> MySqlAttempt<'a> {
    pub(crate) fn new(client: &'a Client, request: &'a LockRequest) -> Self {
        Self {
            client,
            request,
            told: None,
            row_wait: RowWait::begin(),
            waits_at_once: false,
            wake_up: None,
        }
    }

    async fn ask_once(&mut self, ask: Ask<'_>) -> Result<Answer> {
        let (client, claim, limit) = (self.client, ask.claim, ask.limit);
        let left = ask.retry.left();
        let begun = claim.sending();
        let answer = match client.hold {
            MySqlHold::Lease => Box::pin(client.take_lease(claim.id(), left, limit)).await,
            MySqlHold::Row => {
                self.row_wait.left = left;
                let wait = (ask.is_waiting || self.waits_at_once).then_some(self.row_wait);
                let taking = Box::pin(client.take_row(claim, wait, limit));
                self.row_wait = wait.map_or(self.row_wait, |wait| wait.next(self.request.ttl()));
                taking.await
            }
        };
        match answer {
            Ok(Some(won)) => {
                client.heard.note(won.sent);
                if let Some(slot) = won.slot {
                    claim.set_slot(slot);
                }
                Ok(Answer::Granted {
                    grant: won.grant,
                    sent: won.sent,
                    ttl: claim.id().store_ttl(),
                })
            }
            Ok(None) => {
                client.heard.note(begun);
                self.told = None;
                Ok(self.refused(begun, false))
            }
            Err(failure) => {
                if matches!(failure, Failure::Denied(_)) {
                    // The server executed nothing, so there is nothing to clean up. After any other
                    // failure, the server may have granted the take.
                    claim.refused();
                }
                self.handle_failure(begun, failure, ask.retry).await
            }
        }
    }

    fn refused(&self, sent: Moment, may_arrive: bool) -> Answer {
        Answer::Refused {
            sent,
            may_arrive,
            next_ask: match self.client.hold {
                MySqlHold::Lease => ASK_AGAIN,
                MySqlHold::Row => SHORTEST_PAUSE,
            },
        }
    }

    /// Decides whether a failed take means "held". The claim stays armed: the server may still
    /// grant it.
    ///
    /// A row that another transaction keeps locked looks like a server that does not answer. A row
    /// lock may be this claim's own, whose answer was lost, so it does not count as "held".
    async fn handle_failure(
        &mut self,
        begun: Moment,
        failure: Failure,
        retry: &Retry,
    ) -> Result<Answer> {
        let client = self.client;
        let has_reason = matches!(
            failure,
            Failure::Blocked(_) | Failure::ReadOnly(_) | Failure::Unexplained
        );
        let is_silence = matches!(failure, Failure::NoAnswer(_) | Failure::Working(_));
        let error = failure.into_error();
        let grace = retry.grace(client.heard.last());
        let is_locked = Box::pin(client.is_locked(&self.request.key, grace));
        if client.hold == MySqlHold::Lease && error.is_retryable() && !has_reason && is_locked.await
        {
            return Ok(match retry.is_over() {
                true => Answer::Over,
                false => self.refused(begun, true),
            });
        }
        if has_reason || (!is_silence && self.told.is_none()) {
            self.told = Some(error.clone());
        }
        // The last attempt of a wait has little time. An earlier answer of the server says more
        // than its silence then.
        match self.told.clone().filter(|_| error.is_retryable()) {
            Some(told) => Err(told),
            None => Err(error),
        }
    }
}

impl Attempt for MySqlAttempt<'_> {
    const LINES_UP_FIRST: bool = true;

    async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer> {
        // Boxed, so that a waiter's future does not contain this future.
        Box::pin(self.ask_once(ask)).await
    }

    fn last_reply(&self) -> LastReply {
        self.client.heard.last()
    }

    fn prepare_wait(&mut self, others_wait: bool) {
        self.waits_at_once = others_wait;
    }

    fn begin_to_wait(&mut self) -> Result<()> {
        if self.client.hold == MySqlHold::Lease {
            let LockRequest { key, mode, .. } = self.request;
            let (poller, row) = (
                &self.client.background()?.poller,
                self.client.names.row(key),
            );
            self.wake_up = Some(poller.watch(row, *mode));
        }
        Ok(())
    }

    async fn changed(&mut self) -> Result<()> {
        match &self.wake_up {
            Some(wake_up) => wake_up.changed().await,
            None => pending().await,
        }
        Ok(())
    }
}
