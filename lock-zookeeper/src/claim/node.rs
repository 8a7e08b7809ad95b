//! Creates the node of one claim, finds it again, and deletes it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Answer, Backoff, Claim, Clock, Moment, blocking_claim};
use lock_core::{LockKey, Mode, Result};
use zookeeper_client::Error as ZooKeeperError;

use crate::claim::position::QueuePosition;
use crate::claim::registry::ClaimRecord;
use crate::client::Client;
use crate::error::{
    DriverResult, claim_ended, is_cut_off, is_expired, is_loss_of_connection, not_made, translate,
};
use crate::paths::claim_prefix;
use crate::queue::QueueListing;
use crate::session::{looks::ConfirmedListing, node::Node, requests::Session};

/// The node of the claim of one acquisition.
pub(crate) struct ClaimNode<'a> {
    pub(super) client: &'a Client,
    /// The lock's node.
    pub(crate) lock: Arc<str>,
    /// The session of the claim, until it has ended.
    session: Option<Arc<Session>>,
    node: NodeName,
    /// True if the claim may have written a slot into its node.
    pub(super) has_written_slot: bool,
    /// When the last request of this claim was sent whose answer showed the node.
    seen: Moment,
    /// The number of attempts in a row without a result.
    fruitless: u32,
    backoff: Backoff,
}

/// The number of fruitless attempts from which on the claim pauses. The first claim on a new lock
/// takes two attempts.
const PROMPT_ATTEMPTS: u32 = 3;

/// The shortest and the longest pause between attempts without a result.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// The largest age of another claim's look with which a waiter may skip its own check.
const DOUBT: Duration = Duration::from_secs(2);

/// The state of the claim's node.
enum NodeName {
    Absent,
    /// The creation was requested, and not answered.
    Unanswered,
    There(Arc<Node>),
    /// The claim has ended, with its session or because another client deleted its node.
    Ended,
}

impl<'a> ClaimNode<'a> {
    pub(crate) fn new(client: &'a Client, key: &LockKey) -> Self {
        Self {
            client,
            lock: client.paths.lock(key).into(),
            session: None,
            node: NodeName::Absent,
            has_written_slot: false,
            seen: Clock::Boot.now(),
            fruitless: 0,
            backoff: Backoff::new(PAUSE_MIN, PAUSE_MAX),
        }
    }

    /// Looks at the queue, after entering it if necessary; `None` if the claim has ended.
    ///
    /// Continues over lost connections, which the session replaces. With `doubt`, the look is only
    /// a check, so a recent look of another claim may replace it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call continues where this call stopped.
    pub(crate) async fn look(
        &mut self,
        claim: &mut Claim,
        doubt: bool,
    ) -> Result<Option<QueuePosition>> {
        loop {
            let Some(session) = self.session(claim).await? else {
                return Ok(None);
            };
            if doubt && let Some(look) = self.seen_by_others(&session) {
                return Ok(Some(look));
            }
            let asked = Clock::Boot.now();
            let seen = match &self.node {
                NodeName::Absent | NodeName::Ended => self.join(claim, &session).await?,
                NodeName::Unanswered | NodeName::There(_) => self.relist(claim, &session).await?,
            };
            let (Some((confirmed, queue)), NodeName::There(node)) = (seen, &self.node) else {
                self.pause(&session).await;
                continue;
            };
            let Some(index) = queue.position(node.name()) else {
                // Another client has deleted the node.
                self.end();
                continue;
            };
            (self.seen, self.fruitless) = (asked, 0);
            return Ok(Some(QueuePosition {
                confirmed,
                queue,
                index,
                session,
            }));
        }
    }

    /// Returns a recent look of another claim, if that look shows that this claim is blocked.
    fn seen_by_others(&self, session: &Arc<Session>) -> Option<QueuePosition> {
        let NodeName::There(node) = &self.node else {
            return None;
        };
        let (confirmed, queue) = session.looks.listed_since(&self.lock, self.seen)?;
        let index = queue.position(node.name())?;
        let is_new = Clock::Boot.now().since(confirmed) < DOUBT;
        let waits = blocking_claim(queue.modes(), index).is_some();
        (is_new && waits).then(|| QueuePosition {
            confirmed,
            queue,
            index,
            session: Arc::clone(session),
        })
    }

    /// Waits after an attempt without a result.
    async fn pause(&mut self, session: &Session) {
        session.link.settled().await;
        self.fruitless += 1;
        if self.fruitless < PROMPT_ATTEMPTS {
            // Yield, so that the timeout of the caller is polled.
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(self.backoff.next_pause()).await;
        }
    }

    /// Looks at the queue without entering it; `None` if the claim has ended with its session.
    pub(crate) async fn look_without_entering(
        &mut self,
        claim: &Claim,
    ) -> Result<Option<(Arc<Session>, QueueListing)>> {
        loop {
            let Some(session) = self.session(claim).await? else {
                return Ok(None);
            };
            let children = match session.look(&self.lock).await {
                Err(ZooKeeperError::NoNode) => Some(Vec::new()),
                answer => self.retry_or_fail(&session, answer)?,
            };
            if let Some(children) = children {
                return Ok(Some((session, QueueListing::new(children))));
            }
            self.pause(&session).await;
        }
    }

    /// Grants the claim after a look that showed no blocking claim.
    pub(crate) fn grant(&mut self, claim: &Claim, look: &QueuePosition) -> Answer {
        self.session = None;
        let NodeName::There(node) = std::mem::replace(&mut self.node, NodeName::Absent) else {
            return Answer::Ended(claim_ended());
        };
        let is_permit = matches!(claim.id().mode(), Mode::Permit { .. });
        if is_permit && !self.has_written_slot && look.index + 1 < look.queue.len() {
            // The next permit waits until this claim is granted, not until it ends. A written slot
            // has told it already.
            look.session.signal(&node.path, &claim.id().metadata());
        }
        Answer::Granted {
            grant: u64::try_from(node.czxid).unwrap_or(u64::MAX),
            sent: look.counts_from(claim.id().reserve()),
            ttl: look.session.ttl(claim.id().reserve()),
        }
    }

    /// Returns the node of the claim, if it is known.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        match &self.node {
            NodeName::There(node) => Some(Arc::clone(node)),
            _ => None,
        }
    }

    /// Deletes the node of the claim.
    ///
    /// # Errors
    ///
    /// If it is unknown whether the node is gone. Then dropping the claim repeats the deletion.
    pub(crate) async fn withdraw(&mut self, claim: &mut Claim) -> Result<()> {
        let (NodeName::There(node), Some(session)) = (&self.node, &self.session) else {
            return Ok(());
        };
        session.remove(&node.path).await.map_err(translate)?;
        self.client.left(claim.id().claim());
        self.forget_node(claim);
        Ok(())
    }

    /// Returns the session of the claim, and opens it if necessary; `None` once after the claim has
    /// ended.
    async fn session(&mut self, claim: &Claim) -> Result<Option<Arc<Session>>> {
        if self.session.as_deref().is_some_and(Session::has_ended) {
            self.end();
        }
        if let NodeName::Ended = self.node {
            self.node = NodeName::Absent;
            return Ok(None);
        }
        if self.session.is_none() {
            self.session = Some(self.client.session(claim.id()).await?);
        }
        Ok(self.session.clone())
    }

    /// Creates the node of the claim, and lists the queue.
    ///
    /// The claim is registered before the request is sent, so that its node is deleted even if the
    /// caller is dropped.
    async fn join(
        &mut self,
        claim: &mut Claim,
        session: &Arc<Session>,
    ) -> Result<Option<ConfirmedListing>> {
        let (id, prefix) = (claim.id().claim(), claim_prefix(claim.id()));
        let record = ClaimRecord::new(session, &self.lock, &prefix, claim);
        self.client.registry.enter(id, record);
        let sent = claim.sending();
        (self.node, self.has_written_slot) = (NodeName::Unanswered, false);
        let joined = session.join(&self.lock, claim.id()).await;
        match joined.node {
            Ok(node) => {
                self.client.replies.note(sent);
                self.found(claim, node);
                if matches!(joined.queue, Err(ZooKeeperError::NoNode)) {
                    return Ok(None);
                }
                let queue = self.retry_or_fail(session, joined.queue)?;
                Ok(queue.map(|queue| (sent, queue)))
            }
            Err(error) if session.has_ended() || is_cut_off(&error) => {
                self.retry_or_fail(session, Err(error))
            }
            Err(error) => {
                // The server has answered that it created nothing.
                self.forget_node(claim);
                if error != ZooKeeperError::NoNode {
                    return Err(translate(error));
                }
                self.make_lock(session).await?;
                Ok(None)
            }
        }
    }

    /// Creates the lock's node, and the levels above it.
    async fn make_lock(&mut self, session: &Arc<Session>) -> Result<()> {
        // The sweeper deletes the node if no claim enters its queue.
        let lock_nodes = &self.client.lock_nodes;
        lock_nodes.left(Arc::clone(&self.lock), Arc::clone(session));
        let levels = self.client.paths.levels(&self.lock);
        match session.make(levels).await {
            // Another client deleted an empty level just now: the next attempt creates it again.
            Ok(()) | Err((ZooKeeperError::NoNode, _)) => Ok(()),
            Err((error @ (ZooKeeperError::NoAuth | ZooKeeperError::InvalidAcl), path)) => {
                Err(not_made(error, path))
            }
            Err((error, _)) => self.retry_or_fail(session, Err::<(), _>(error)).map(|_| ()),
        }
    }

    /// Lists the queue again, and looks for a node whose creation was not answered.
    ///
    /// Invariant: if a committed state has the claim's node and no earlier claim, no later state
    /// has an earlier claim while the node exists. Why: later claims get higher sequence numbers.
    /// Breaks if: the node was deleted, as at the end of its session. So the server may answer from
    /// an older state, and only the lifetime of the session counts.
    async fn relist(
        &mut self,
        claim: &mut Claim,
        session: &Arc<Session>,
    ) -> Result<Option<ConfirmedListing>> {
        let is_unanswered = matches!(self.node, NodeName::Unanswered);
        let seen = session.look_together(&self.lock).await;
        if matches!(seen, Err(ZooKeeperError::NoNode)) {
            match is_unanswered {
                true => self.forget_node(claim),
                false => self.end(),
            }
            return Ok(None);
        }
        let Some((confirmed, queue)) = self.retry_or_fail(session, seen)? else {
            return Ok(None);
        };
        if is_unanswered && !self.find(claim, session, &queue).await? {
            return Ok(None);
        }
        self.client.replies.note(confirmed);
        Ok(Some((confirmed, queue)))
    }

    /// Looks for the node, whose creation was not answered. Returns true if the node is there.
    async fn find(
        &mut self,
        claim: &mut Claim,
        session: &Session,
        queue: &QueueListing,
    ) -> Result<bool> {
        let found = match queue.find(&claim_prefix(claim.id())) {
            Some(name) => session.own(&self.lock, name).await,
            None => Ok(None),
        };
        match self.retry_or_fail(session, found)? {
            Some(Some(node)) => self.found(claim, node),
            Some(None) => self.forget_node(claim),
            None => {}
        }
        Ok(matches!(self.node, NodeName::There(_)))
    }

    fn found(&mut self, claim: &Claim, node: Node) {
        let (node, registry) = (Arc::new(node), &self.client.registry);
        let its_node = Some(Arc::clone(&node));
        registry.update(claim.id().claim(), |record| record.node = its_node);
        self.client.lock_nodes.joined(&self.lock);
        self.node = NodeName::There(node);
    }

    fn forget_node(&mut self, claim: &mut Claim) {
        claim.refused();
        self.client.registry.leave(claim.id().claim());
        self.node = NodeName::Absent;
    }

    /// Notes that the claim has ended. Its release deletes a node that is still there.
    fn end(&mut self) {
        (self.session, self.node) = (None, NodeName::Ended);
    }

    /// Turns an answer into a result; `None` if the request has to be repeated.
    pub(super) fn retry_or_fail<T>(
        &mut self,
        session: &Session,
        answer: DriverResult<T>,
    ) -> Result<Option<T>> {
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(error) if session.has_ended() || is_expired(&error) => {
                self.end();
                Ok(None)
            }
            Err(error) if is_loss_of_connection(&error) => {
                session.link.request_sizes.check(&self.lock).map(|()| None)
            }
            Err(error) => Err(translate(error)),
        }
    }
}
