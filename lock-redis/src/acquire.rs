//! One acquisition: how it asks the server, and what wakes its waiter.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{
    Answer, Ask, Attempt, Backoff, Claim, Clock, LastReply, LocalQueue, Moment,
};
use lock_core::{LockRequest, Result};

use crate::client::{self, Client};
use crate::commands::calls::Asks;
use crate::connection::multiplexed::Connection;
use crate::connection::shared_connection::SharedConnection;
use crate::notifications::WakeUp;
use crate::wake_rate_limit::WakeRateLimit;

/// Maximum time that a waiter relies on pushes before it asks again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// First and longest pause between requests of a waiter without pushes.
const LOOKS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// The attempts of one acquisition.
pub(crate) struct RedisAttempt<'a> {
    client: &'a Client,
    queue: &'a LocalQueue,
    request: &'a LockRequest,
    command: Arc<SharedConnection>,
    unanswered: Unanswered,
    wake_up: Option<WakeUp>,
    looks: Backoff,
    rate_limit: WakeRateLimit,
}

impl<'a> RedisAttempt<'a> {
    pub(crate) fn new(
        client: &'a Client,
        queue: &'a LocalQueue,
        request: &'a LockRequest,
    ) -> Result<Self> {
        let [first, longest] = LOOKS;
        Ok(Self {
            client,
            queue,
            request,
            command: client.command()?,
            unanswered: Unanswered::default(),
            wake_up: None,
            looks: Backoff::new(first, longest),
            rate_limit: WakeRateLimit::new(),
        })
    }

    /// Sends one take, connecting if needed, with an answer before `ends`.
    async fn ask_before(
        &mut self,
        claim: &mut Claim,
        is_waiting: bool,
        ends: Moment,
    ) -> Result<Answer> {
        let left = || ends.since(Clock::Boot.now());
        let connection = self.command.connection_within(left()).await?;
        let is_pushed = is_waiting && connection.pushes;
        let asks = match (is_waiting, is_pushed) {
            (false, _) if self.queue.is_waited_for(&self.request.key) => Asks::BesideWaiter,
            (false, _) => Asks::Once,
            (true, false) => Asks::Waiting,
            (true, true) => Asks::Listening,
        };
        let sent = claim.sending();
        let taking = self
            .client
            .take(claim.id(), &self.command, &connection, asks, left());
        let answer = taking.await;
        self.unanswered.note(&connection, answer.is_err());
        Ok(match answer? {
            client::TakeReply::Granted(grant, slot) => {
                if let Some(slot) = slot {
                    claim.set_slot(slot);
                }
                Answer::Granted {
                    grant,
                    sent,
                    ttl: claim.id().store_ttl(),
                }
            }
            client::TakeReply::Busy(left) => {
                let until_free = left.map(|left| left.saturating_add(Duration::from_millis(1)));
                let look = until_free.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
                Answer::Refused {
                    sent,
                    may_arrive: self.unanswered.may_arrive,
                    next_ask: match is_pushed || !is_waiting {
                        true => look,
                        false => look.min(self.looks.next_pause()),
                    },
                }
            }
        })
    }
}

impl Attempt for RedisAttempt<'_> {
    /// Sends a take, and sends it again on a new connection if the connection had broken while it
    /// was idle. The server recognizes the resend by its claim id.
    async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer> {
        let ends = Clock::Boot.now().plus(ask.limit);
        match self.ask_before(ask.claim, ask.is_waiting, ends).await {
            Err(error)
                if error.is_retryable()
                    && self.command.current().is_none()
                    && Clock::Boot.now() < ends =>
            {
                self.ask_before(ask.claim, ask.is_waiting, ends).await
            }
            outcome => outcome,
        }
    }

    fn last_reply(&self) -> LastReply {
        self.command.replies()
    }

    fn prepare_wait(&mut self, _others_wait: bool) {
        let key = self.client.lock_key(&self.request.key);
        self.wake_up = Some(self.client.notifications.watch(key));
    }

    fn begin_to_wait(&mut self) -> Result<()> {
        if let Some(wake_up) = &self.wake_up {
            wake_up.begin();
        }
        Ok(())
    }

    async fn pace(&mut self) {
        self.rate_limit.step().await;
    }

    async fn changed(&mut self) -> Result<()> {
        match &self.wake_up {
            Some(wake_up) => wake_up.changed().await,
            None => std::future::pending().await,
        }
        Ok(())
    }
}

/// The connections of takes that were not answered.
#[derive(Default)]
struct Unanswered {
    /// The connection of the last unanswered take.
    on: Option<Arc<Connection>>,
    /// True if a take may still arrive, even though later takes were answered.
    may_arrive: bool,
}

impl Unanswered {
    /// Records the outcome of a take on `connection`.
    ///
    /// An answer proves that all earlier takes on this connection have arrived. It proves nothing
    /// about another connection, whose takes the server may have received but not yet executed.
    fn note(&mut self, connection: &Arc<Connection>, is_unanswered: bool) {
        let before = self.on.take();
        self.may_arrive |= before.is_some_and(|before| !Arc::ptr_eq(&before, connection));
        self.on = is_unanswered.then(|| Arc::clone(connection));
    }
}
