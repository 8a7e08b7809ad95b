//! One acquisition: its requests to the servers, and the watch that wakes its waiter.

use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt;
use lock_core::backend::{
    Answer, Ask, Attempt, Claim, Clock, LastReply, Moment, Retry, blocking_claim,
};
use lock_core::{LockRequest, Mode, Result};
use zookeeper_client::Error as ZooKeeperError;

use crate::claim::node::ClaimNode;
use crate::claim::position::QueuePosition;
use crate::claim::slot::SlotChoice;
use crate::client::{Client, check_lasts};
use crate::error::{
    DriverResult, claim_ended, is_end_of_session, is_loss_of_connection, no_claim, translate,
};
use crate::waiting::{WaiterWatch, WaitsFor, trust};

/// The time that an answer may take, if the request sets no shorter limit.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// The time before the end of a wait at which the waiter looks once more. Without this look, a slow
/// ensemble at the end of a wait would be reported as unreachable.
const BEFORE_THE_END: Duration = Duration::from_millis(240);

/// The largest age of an answer that the key is held with which a wait may end without another
/// look.
const RECENT: Duration = Duration::from_millis(300);

/// The attempts of one acquisition.
pub(crate) struct ZooKeeperAttempt<'a> {
    client: &'a Client,
    request: &'a LockRequest,
    node: ClaimNode<'a>,
    waiting: Option<WaiterWatch>,
    /// When the ensemble last confirmed that the key is held.
    told_held: Option<Moment>,
    /// The claim that was watched last. A claim that changed before its watch was open causes a
    /// single further look.
    looked_again_for: Option<String>,
    /// True if the watch has reported nothing since the last look, so that the next look is only a
    /// check.
    doubt: bool,
}

impl<'a> ZooKeeperAttempt<'a> {
    pub(crate) fn new(client: &'a Client, request: &'a LockRequest) -> Self {
        Self {
            client,
            request,
            node: ClaimNode::new(client, &request.key),
            waiting: None,
            told_held: None,
            looked_again_for: None,
            doubt: false,
        }
    }

    /// Takes the key if it is free. Looks first at a key that was refused before.
    async fn try_once(&mut self, claim: &mut Claim) -> Result<Answer> {
        let (refused, key) = (&self.client.refused, &self.request.key);
        if refused.has(key) {
            let Some(is_held) = self.is_held(claim).await? else {
                return Ok(Answer::Ended(claim_ended()));
            };
            if is_held {
                return Ok(Answer::Over);
            }
            refused.forget(key);
        }
        let answer = self.look(claim, false, false).await?;
        if let Answer::Queued { .. } = answer {
            refused.add(key.clone());
        }
        Ok(answer)
    }

    /// Enters the queue if the claim is not in the queue, and grants the claim if it is not
    /// blocked.
    async fn enqueue(&mut self, claim: &mut Claim, retry: &Retry) -> Result<Answer> {
        let is_over = retry.is_over();
        let doubt = std::mem::replace(&mut self.doubt, true) && !is_over;
        let is_recent = |told| Clock::Boot.now().since(told) < RECENT;
        if is_over && self.told_held.is_some_and(is_recent) {
            return Ok(Answer::Over);
        }
        let mut answer = self.look(claim, !is_over, doubt).await?;
        if let Answer::Queued { next_ask, .. } = &mut answer
            && let Some(left) = retry.left().checked_sub(BEFORE_THE_END)
            && !left.is_zero()
        {
            *next_ask = left.min(*next_ask);
        }
        Ok(answer)
    }

    /// Returns true if the key is held against this request; `None` if the claim has ended.
    async fn is_held(&mut self, claim: &Claim) -> Result<Option<bool>> {
        let Some((session, queue)) = self.node.look_without_entering(claim).await? else {
            return Ok(None);
        };
        let mut modes = queue.modes().to_vec();
        modes.push(self.request.mode);
        let before = blocking_claim(&modes, modes.len() - 1);
        self.node.check(&session, &queue, before).await?;
        Ok(Some(before.is_some()))
    }

    /// Looks at the queue, and grants the claim if it is not blocked. With `watches`, a blocked
    /// claim watches a claim that blocks it.
    async fn look(&mut self, claim: &mut Claim, watches: bool, doubt: bool) -> Result<Answer> {
        loop {
            let Some(look) = self.node.look(claim, doubt).await? else {
                return Ok(Answer::Ended(claim_ended()));
            };
            let modes = look.queue.modes();
            let before = blocking_claim(modes, look.index);
            // A waiter checks the blocking claim when it opens the watch.
            let in_the_way = before.filter(|_| !watches);
            self.node
                .check(&look.session, &look.queue, in_the_way)
                .await?;
            let Some(before) = before else {
                if let Err(error) = check_lasts(&look.session, claim.id()) {
                    return Ok(Answer::Ended(error));
                }
                if let Mode::Permit { of } = self.request.mode {
                    let metadata = claim.id().metadata();
                    match self.node.choose_slot(&look, of.get(), &metadata).await? {
                        SlotChoice::Slot(slot) => claim.set_slot(slot),
                        SlotChoice::Unreadable => {}
                        SlotChoice::Again => continue,
                    }
                }
                return Ok(self.node.grant(claim, &look));
            };
            self.told_held = Some(look.confirmed);
            let is_permit_before = matches!(modes[before], Mode::Permit { .. });
            let is_permit = matches!(self.request.mode, Mode::Permit { .. });
            let before_holds = || blocking_claim(modes, before).is_none();
            let waits_for = if is_permit && is_permit_before && before_holds() {
                WaitsFor::Anyone
            } else {
                WaitsFor::Claim(look.queue.name(before).to_owned())
            };
            if !watches || self.watch(&look, waits_for).await? {
                return Ok(Answer::Queued {
                    sent: look.confirmed,
                    next_ask: trust(self.request.ttl()),
                });
            }
        }
    }

    /// Watches `before`; returns false if it may have changed before the watch was open.
    async fn watch(&mut self, look: &QueuePosition, before: WaitsFor) -> Result<bool> {
        let waiting = self.waiting.as_ref();
        if waiting.is_some_and(|waiting| waiting.is_for(&before)) {
            return Ok(true);
        }
        self.waiting = None;
        let lock = &self.node.lock;
        match &before {
            WaitsFor::Anyone => {
                let Some(watcher) = settle(look.session.watch_queue(lock).await)? else {
                    return Ok(false);
                };
                let changed = watcher.changed().map(drop).boxed();
                self.waiting = Some(WaiterWatch::new(before, changed, None));
                // A claim may have been deleted before the watch was open.
                Ok(false)
            }
            WaitsFor::Claim(name) => {
                let path = format!("{lock}/{name}");
                let shared = look.session.watch(&path);
                let Some(Some(watched)) = settle(shared.clone().await)? else {
                    return Ok(false);
                };
                if !watched.is_ephemeral {
                    return Err(no_claim(&path));
                }
                let is_news = watched.changes > 0 && self.looked_again_for.as_ref() != Some(name);
                self.looked_again_for = Some(name.clone());
                let changed = watched.changed.boxed();
                self.waiting = Some(WaiterWatch::new(before, changed, Some(shared)));
                Ok(!is_news)
            }
        }
    }
}

impl Attempt for ZooKeeperAttempt<'_> {
    async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer> {
        let (client, limit) = (self.client, ask.limit);
        let asking = async {
            match ask.retry.may_wait() {
                true => self.enqueue(ask.claim, ask.retry).await,
                false => self.try_once(ask.claim).await,
            }
        };
        // Boxed: an attempt is large, and most waiters are between two attempts.
        let answer = Box::pin(client.deadlines.timeout(limit, asking)).await;
        answer.unwrap_or_else(|| Err(client.request_sizes.no_answer(limit)))
    }

    fn last_reply(&self) -> LastReply {
        self.client.replies.last()
    }

    async fn changed(&mut self) -> Result<()> {
        let Some(waiting) = &mut self.waiting else {
            return pending().await;
        };
        waiting.changed().await;
        self.doubt = false;
        Ok(())
    }

    async fn leave(&mut self, claim: &mut Claim, limit: Duration) {
        let client = self.client;
        let leaving = client.deadlines.timeout(limit, self.node.withdraw(claim));
        if let Some(Err(error)) = Box::pin(leaving).await {
            tracing::debug!(%error, "zookeeper: deleting the node of a waiter failed, repeating it in the background");
        }
    }
}

/// Turns an answer into a result; `None` if the caller has to look again.
fn settle<T>(answer: DriverResult<T>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if is_loss_of_connection(&error)
                || is_end_of_session(&error)
                || error == ZooKeeperError::NoNode =>
        {
            Ok(None)
        }
        Err(error) => Err(translate(error)),
    }
}
