//! The claims and holds of a client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::LossReason;
use lock_core::backend::{Claim, ClaimId, Clock, HoldId, LossSender, Moment, Mutex};

use crate::session::connection::counted;
use crate::session::node::Node;
use crate::session::requests::Session;

/// The time that the deletion of abandoned claims may take. A claim whose release began less than
/// this time ago is not abandoned.
pub(crate) const GIVING_BACK: Duration = Duration::from_secs(3);

/// The record of a claim, from before its first write until its node is known to be gone.
#[derive(Clone)]
pub(crate) struct ClaimRecord {
    pub(crate) session: Arc<Session>,
    /// The lock's node.
    pub(crate) lock: Arc<str>,
    /// The first part of the name of the claim's node.
    pub(crate) prefix: Arc<str>,
    /// The claim's node, once an answer has named it.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) loss: LossSender,
    reserve: Duration,
    /// True if a watch reports the end of the node.
    pub(crate) is_watched: bool,
    /// When the first failed release began.
    pub(crate) stuck_since: Option<Moment>,
    /// When the last release began.
    pub(crate) released: Option<Moment>,
    /// When the next renewal of the hold is due. Until then the hold is in use, unless a release
    /// was tried.
    renewed_until: Option<Moment>,
}

impl ClaimRecord {
    /// Makes the record of a claim without a known node.
    pub(crate) fn new(
        session: &Arc<Session>,
        lock: &Arc<str>,
        prefix: &str,
        claim: &Claim,
    ) -> Self {
        Self {
            session: Arc::clone(session),
            lock: Arc::clone(lock),
            prefix: prefix.into(),
            node: None,
            loss: claim.loss(),
            reserve: claim.id().reserve(),
            is_watched: false,
            stuck_since: None,
            released: None,
            renewed_until: None,
        }
    }

    /// Returns the number of bytes that the claim adds to the load of its session.
    fn size(&self) -> usize {
        self.lock.len() + self.prefix.len()
    }

    /// Returns true if the claim is abandoned: not in use, and not being released.
    fn is_left(&self, now: Moment) -> bool {
        let is_being_released = |released: Moment| now.since(released) < GIVING_BACK;
        match (self.released, self.renewed_until) {
            (Some(released), _) if is_being_released(released) => false,
            // Cheaper than a look at the hold, where a client has thousands of holds.
            (None, Some(until)) if now < until => false,
            _ => self.loss.is_over(),
        }
    }
}

/// All claims of one client.
#[derive(Default)]
pub(crate) struct ClaimRegistry(Mutex<HashMap<ClaimId, ClaimRecord>>);

impl ClaimRegistry {
    pub(crate) fn enter(&self, claim: ClaimId, record: ClaimRecord) {
        record.session.load(record.size());
        self.0.lock().insert(claim, record);
    }

    pub(crate) fn get(&self, claim: ClaimId) -> Option<ClaimRecord> {
        self.0.lock().get(&claim).cloned()
    }

    /// Changes the record of a claim, if the claim has a record.
    pub(crate) fn update(&self, claim: ClaimId, change: impl FnOnce(&mut ClaimRecord)) {
        self.0.lock().get_mut(&claim).map(change);
    }

    /// Notes that requests sent at `sent` have renewed `holds`.
    pub(crate) fn renewed<'a>(&self, sent: Moment, holds: impl Iterator<Item = &'a HoldId>) {
        let mut all = self.0.lock();
        for hold in holds {
            if let Some(record) = all.get_mut(&hold.claim()) {
                let ttl = hold.ttl().min(record.session.link.timeout());
                record.renewed_until = Some(sent.plus(ttl / 3));
            }
        }
    }

    /// Removes the record of a claim without a node.
    pub(crate) fn leave(&self, claim: ClaimId) -> Option<ClaimRecord> {
        let left = self.0.lock().remove(&claim)?;
        left.session.unload(left.size());
        Some(left)
    }

    /// Returns true if `session` has claims; in a retired session only claims in use count.
    pub(crate) fn are_needed_in(&self, session: &Arc<Session>) -> bool {
        let all = self.0.lock();
        let mut there = all
            .values()
            .filter(|record| Arc::ptr_eq(&record.session, session));
        there.any(|record| !session.is_retired() || !record.loss.is_over())
    }

    /// Returns the abandoned claims in `session`.
    pub(crate) fn abandoned_in(&self, session: &Arc<Session>) -> Vec<(ClaimId, ClaimRecord)> {
        let now = Clock::Boot.now();
        self.in_session(session, |record| record.is_left(now))
    }

    /// Removes the records of all claims in `session`, which takes no new claims.
    pub(crate) fn leave_all_in(&self, session: &Arc<Session>) {
        self.0
            .lock()
            .retain(|_, record| !Arc::ptr_eq(&record.session, session));
    }

    /// Reports the end of `session` to all its claims.
    pub(crate) fn lose(&self, session: &Arc<Session>) {
        for (_, record) in self.in_session(session, |_| true) {
            record.loss.lost(LossReason::Removed);
        }
    }

    /// Limits all claims in `session` to `timeout` after `since`, whatever earlier requests
    /// confirmed.
    pub(crate) fn limit(&self, session: &Arc<Session>, since: Moment, timeout: Duration) {
        for (_, record) in self.in_session(session, |_| true) {
            let ttl = counted(timeout, record.reserve);
            record.loss.limit(since, ttl);
        }
    }

    /// Returns the claims in `session` for which `is_wanted` returns true.
    fn in_session(
        &self,
        session: &Arc<Session>,
        is_wanted: impl Fn(&ClaimRecord) -> bool,
    ) -> Vec<(ClaimId, ClaimRecord)> {
        let all = self.0.lock();
        let wanted = all
            .iter()
            .filter(|(_, record)| Arc::ptr_eq(&record.session, session) && is_wanted(record));
        wanted
            .map(|(claim, record)| (*claim, record.clone()))
            .collect()
    }
}
