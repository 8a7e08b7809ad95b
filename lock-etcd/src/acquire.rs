//! One acquisition: its requests to the servers, and the news that wakes its waiter.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Answer, Ask, Attempt, Claim, Clock, LastReply, LeaseStore, Moment};
use lock_core::{LockRequest, Mode, Result};

use crate::claim::key::ClaimKey;
use crate::claim::slots::choose_slot;
use crate::client::{Client, Take};
use crate::connection::shared_connection::SharedConnection;
use crate::error::{Failure, lease_ended, no_answer, unexpected};
use crate::queue::QueueSnapshot;
use crate::wait::shared_wait::TurnNews;
use crate::wait::ticket::Ticket;

/// The number of claims that a take without a wait lists: usually enough to see that the key is
/// held.
const PAGE: i64 = 50;

/// The time that a waiter relies on its watch before it asks again.
const ASK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// The attempts of one acquisition.
pub(crate) struct EtcdAttempt<'a> {
    client: &'a Client,
    request: &'a LockRequest,
    command: Arc<SharedConnection>,
    /// The claim, kept over attempts without a definite answer. The servers then recognize a
    /// repeated take, and the claim keeps its position in the queue.
    claim_key: Option<Arc<ClaimKey>>,
    ticket: Option<Ticket>,
    /// The create revision of the claim, once the claims that blocked it are gone.
    next: Option<i64>,
}

impl<'a> EtcdAttempt<'a> {
    pub(crate) fn new(client: &'a Client, request: &'a LockRequest) -> Result<Self> {
        Ok(Self {
            client,
            request,
            command: client.command()?,
            claim_key: None,
            ticket: None,
            next: None,
        })
    }

    /// Takes the key if it is free, and writes nothing if it is held. If the holders share the key
    /// and the claim might join them, the claim enters the queue to find out.
    async fn try_once(&mut self, ask: Ask<'_>) -> Result<Answer> {
        let mode = self.request.mode;
        let (claim, sent) = (ask.claim, Clock::Boot.now());
        let ends = sent.plus(ask.limit);
        let mut queue = match self.take(claim, Take::IfQueueEmpty(PAGE), ends).await? {
            Ok(queue) => queue,
            Err(answer) => return Ok(answer),
        };
        let tells_all = queue.created().is_none() && !queue.may_admit(mode);
        if queue.is_partial && !tells_all {
            queue = match self.take(claim, Take::IfQueueEmpty(0), ends).await? {
                Ok(queue) => queue,
                Err(answer) => return Ok(answer),
            };
        }
        if queue.created().is_none()
            && queue.may_admit(mode)
            && let Err(answer) = self.take(claim, Take::Enqueue, ends).await?
        {
            return Ok(answer);
        }
        Ok(Answer::Refused {
            sent,
            may_arrive: self.claim_key.is_some(),
            next_ask: ASK_AGAIN,
        })
    }

    /// Enters the queue, or asks for the position of the claim in it.
    async fn enqueue(&mut self, ask: Ask<'_>) -> Result<Answer> {
        if let Some(ticket) = self.ticket.take()
            && let Some(checked) = ticket.wait.checked()
            && self.next.is_none()
        {
            ask.retry.refused(checked);
        }
        let waits = &self.client.background()?.waits;
        let queue = self.client.keys.queue(&self.request.key);
        // A claim that is next, or that comes behind other waiters of this client, need not read
        // the whole queue.
        let is_known = self.next.is_some() || waits.has_waiter(&queue);
        let take = match is_known {
            true => Take::KeepPlace,
            false => Take::Enqueue,
        };
        let sent = Clock::Boot.now();
        let queue = match self.take(ask.claim, take, sent.plus(ask.limit)).await? {
            Ok(queue) => queue,
            Err(answer) => return Ok(answer),
        };
        self.next = None;
        let (Some(claim_key), Some(created)) = (&self.claim_key, queue.created()) else {
            return Err(unexpected("a claim that is not in its queue"));
        };
        if !ask.retry.is_over() {
            let claim_key = Arc::clone(claim_key);
            let ticket = waits.enter(claim_key, created, ask.retry.ends(), Some(queue));
            self.ticket = Some(ticket);
        }
        Ok(Answer::Queued {
            sent,
            next_ask: ASK_AGAIN,
        })
    }

    /// Sends one take. Returns the queue if other claims block this claim, else the answer of the
    /// attempt.
    async fn take(
        &mut self,
        claim: &mut Claim,
        take: Take,
        ends: Moment,
    ) -> Result<std::result::Result<QueueSnapshot, Answer>> {
        let left = || ends.since(Clock::Boot.now());
        let Some(claim_key) = self.claim_key(claim, left()).await? else {
            return Ok(Err(self.ended()));
        };
        claim.sending();
        let queue = match self.client.take(&claim_key, take, left()).await {
            Ok(queue) => queue,
            Err(Failure::LeaseMissing(_)) => return Ok(Err(self.ended())),
            Err(failure) => return Err(failure.into()),
        };
        if let Some(created) = queue.created()
            && (queue.is_ours() || self.next == Some(created))
        {
            if let Mode::Permit { .. } = claim_key.mode {
                match self.slot(&claim_key, queue, ends).await? {
                    Some(slot) => claim.set_slot(slot),
                    None => return Ok(Err(self.ended())),
                }
            }
            return self.grant(claim_key, created).await.map(Err);
        }
        let ends = queue.check_ends(queue.created().unwrap_or(i64::MAX));
        if queue.created().is_none() && !claim_key.is_in_doubt() {
            self.client.leave(claim.id().claim());
            claim.refused();
            self.claim_key = None;
        }
        ends.map(|()| Ok(queue))
    }

    /// Returns the claim, with a new key under a live lease if necessary; `None` if its lease has
    /// ended.
    async fn claim_key(&mut self, claim: &Claim, limit: Duration) -> Result<Option<Arc<ClaimKey>>> {
        if let Some(claim_key) = &self.claim_key {
            let is_alive = claim_key.lease.end().is_none();
            return Ok(is_alive.then(|| Arc::clone(claim_key)));
        }
        let entering = self.client.enter_claim(claim);
        let entered = self.command.within(limit, entering).await;
        let claim_key = entered.unwrap_or_else(|| Err(no_answer(limit)))?;
        self.claim_key = Some(Arc::clone(&claim_key));
        Ok(Some(claim_key))
    }

    fn ended(&mut self) -> Answer {
        (self.claim_key, self.next) = (None, None);
        Answer::Ended(lease_ended())
    }

    /// Returns the slot of a granted permit; `None` if its claim is gone.
    async fn slot(
        &self,
        claim_key: &ClaimKey,
        queue: QueueSnapshot,
        ends: Moment,
    ) -> Result<Option<u32>> {
        let created = queue.created().unwrap_or_default();
        let known = (!queue.is_partial).then_some(queue);
        Ok(choose_slot(&self.command, claim_key, created, known, ends).await?)
    }

    /// Grants the claim. Its validity counts from the last keep-alive of its lease.
    async fn grant(&mut self, claim_key: Arc<ClaimKey>, created: i64) -> Result<Answer> {
        let grant = u64::try_from(created).map_err(|_| unexpected("a revision below zero"))?;
        let (sent, ttl) = claim_key.lease.fresh(self.request.min_hold()).await?;
        claim_key.granted(created);
        self.claim_key = None;
        Ok(Answer::Granted { grant, sent, ttl })
    }
}

impl Attempt for EtcdAttempt<'_> {
    /// Requests can overtake each other on the network. The queue within the process keeps the
    /// order of arrival.
    const LINES_UP_FIRST: bool = true;

    async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer> {
        // Boxed: otherwise each waiter would hold the memory of a request for as long as it waits.
        match ask.retry.may_wait() {
            true => Box::pin(self.enqueue(ask)).await,
            false => Box::pin(self.try_once(ask)).await,
        }
    }

    fn last_reply(&self) -> LastReply {
        self.command.replies.last()
    }

    async fn changed(&mut self) -> Result<()> {
        let Some(ticket) = &mut self.ticket else {
            return pending().await;
        };
        match ticket.next_news().await {
            Some(TurnNews::Next) => {
                self.next = Some(ticket.created);
                Ok(())
            }
            Some(TurnNews::Gone) | None => Ok(()),
            Some(TurnNews::Failed(error)) => {
                let (claim_key, created) = (Arc::clone(&ticket.claim_key), ticket.created);
                let ends = ticket.ends;
                // Before the claim waits again: dropping the ticket ends the wait of the claim.
                self.ticket = None;
                let waits = &self.client.background()?.waits;
                self.ticket = Some(waits.enter(claim_key, created, ends, None));
                Err(error)
            }
        }
    }

    /// Leaves the queue, so that no later waiter waits for this claim.
    async fn leave(&mut self, claim: &mut Claim, _limit: Duration) {
        self.ticket = None;
        match self.client.release(claim.id()).await {
            Ok(_) => claim.refused(),
            Err(error) => {
                tracing::debug!(%error, "etcd: claim was not removed from its queue, removing it in the background")
            }
        }
    }
}
