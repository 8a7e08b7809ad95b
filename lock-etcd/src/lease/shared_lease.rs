//! A lease that claims with the same ttl and reserve share.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lock_core::backend::{ClaimId, Clock, LossSender, Moment, Mutex};
use lock_core::{LossReason, Result};
use tokio::sync::{Notify, watch};

use crate::error::{leader_changed, lease_ended, no_answer};
use crate::lease::grant::{GrantedLease, Granting};
use crate::lease::keep_alive::{KeepAlive, KeptAlive};

/// The shortest and the longest time that the client waits for the answer to a keep-alive.
const LIMIT_MIN: Duration = Duration::from_millis(100);
const LIMIT_MAX: Duration = Duration::from_secs(1);

/// A lease on the servers.
///
/// Invariant: a lease is used for one term of the cluster, and only confirmations in the term of
/// its grant count. Why: a leader that was paused continues as if it still led. It then revokes all
/// leases that it did not keep alive itself, although its successor kept them alive
/// (<https://github.com/etcd-io/etcd/issues/15247>). But it has seen the confirmations of its own
/// term. Breaks if: a hold stays under a lease of an earlier term.
///
/// So when a later term is seen, all claims [move](crate::lease::migrate) to a new lease, which
/// replaces the old lease in this state.
pub(crate) struct SharedLease {
    /// The claim whose id its lease ids are made from.
    claim: ClaimId,
    granting: Arc<Granting>,
    keep_alive: KeepAlive,
    /// A key that the user may read, as an answered take has shown.
    readable: OnceLock<Arc<str>>,
    /// The last part of the ttl, which guards do not count on.
    reserve: Duration,
    state: Mutex<LeaseState>,
    /// Notifies the task that maintains the lease.
    pub(crate) changed: Notify,
    /// Notifies waiters when all claims have moved.
    moved: Notify,
    /// The reason of its end, once it has ended.
    end: watch::Sender<Option<LossReason>>,
}

struct LeaseState {
    /// The lease, with the moment and the ttl of its last confirmation.
    lease: GrantedLease,
    /// The next lease while a move is under way, to which new claims are attached.
    next: Option<GrantedLease>,
    /// True if a majority has confirmed the lease, as with a grant.
    by_a_majority: bool,
    /// True if there is a later term, so that all claims have to move.
    is_superseded: bool,
    /// The claims of the lease.
    claims: HashMap<ClaimId, AttachedClaim>,
    /// True if the lease takes no new claims.
    retired: bool,
    unused_since: Moment,
    /// The keys to delete as long as the lease lives: requests that create them may still arrive.
    late_keys: Vec<String>,
}

/// A claim that is attached to the lease.
struct AttachedClaim {
    loss: LossSender,
    /// The key of the claim; unknown before the first request.
    key: Option<Arc<str>>,
}

impl SharedLease {
    pub(crate) fn new(
        granted: GrantedLease,
        claim: ClaimId,
        granting: Arc<Granting>,
        keep_alive: KeepAlive,
        reserve: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            claim,
            granting,
            keep_alive,
            readable: OnceLock::new(),
            reserve,
            state: Mutex::new(LeaseState {
                lease: granted,
                next: None,
                by_a_majority: true,
                is_superseded: false,
                claims: HashMap::new(),
                retired: false,
                unused_since: Clock::Boot.now(),
                late_keys: Vec::new(),
            }),
            changed: Notify::new(),
            moved: Notify::new(),
            end: watch::Sender::new(None),
        })
    }

    /// Returns the id of the lease that new claims are attached to.
    pub(crate) fn id(&self) -> i64 {
        self.state.lock().id()
    }

    /// Returns the leases that keys of this client may be attached to: both leases while a move is
    /// under way.
    pub(crate) fn ids(&self) -> Vec<i64> {
        let state = self.state.lock();
        let next = state.next.map(|next| next.id);
        [state.lease.id].into_iter().chain(next).collect()
    }

    /// Returns the last confirmation: when it was asked for, and for how long the lease lives from
    /// then.
    pub(crate) fn confirmed(&self) -> (Moment, Duration) {
        let state = self.state.lock();
        (state.lease.sent, state.lease.ttl)
    }

    /// Returns the last confirmation, without the reserve that guards do not count on.
    pub(crate) fn counted_on(&self) -> (Moment, Duration) {
        let (sent, ttl) = self.confirmed();
        (sent, ttl.saturating_sub(self.reserve))
    }

    /// Attaches a claim; returns false if the lease takes no new claims.
    pub(crate) fn enter(&self, claim: ClaimId, loss: LossSender) -> bool {
        let mut state = self.state.lock();
        if state.retired {
            return false;
        }
        state
            .claims
            .insert(claim, AttachedClaim { loss, key: None });
        true
    }

    /// Attaches a claim that replaces another one with the same key. A lease that takes no new claims
    /// does so, too, as the key is attached already. Returns false if the lease has ended.
    pub(crate) fn adopt(&self, claim: ClaimId, loss: LossSender, key: &Arc<str>) -> bool {
        let mut state = self.state.lock();
        if self.end().is_some() {
            return false;
        }
        let key = Some(Arc::clone(key));
        state.claims.insert(claim, AttachedClaim { loss, key });
        true
    }

    /// Notes the key of a claim, before it is created.
    pub(crate) fn attach_key(&self, claim: ClaimId, key: Arc<str>) {
        if let Some(attached) = self.state.lock().claims.get_mut(&claim) {
            attached.key = Some(key);
        }
    }

    /// Notes that the user may read `key`.
    pub(crate) fn may_read(&self, key: &str) {
        self.readable.get_or_init(|| key.into());
    }

    /// Removes a claim.
    pub(crate) fn leave(&self, claim: ClaimId) {
        let mut state = self.state.lock();
        state.claims.remove(&claim);
        if state.claims.is_empty() {
            state.unused_since = Clock::Boot.now();
            // Otherwise a new claim may use the lease, which the next keep-alive checks.
            if state.retired || state.is_superseded {
                self.changed.notify_one();
            }
        }
    }

    /// Takes no new claims, so that the lease ends with its last claim.
    pub(crate) fn retire(&self) {
        self.state.lock().retired = true;
        self.changed.notify_one();
    }

    /// Returns true if the lease takes no new claims.
    pub(crate) fn is_retired(&self) -> bool {
        self.state.lock().retired
    }

    /// Deletes `key` again and again as long as the lease lives.
    pub(crate) fn delete_until_revoked(&self, key: &str) {
        let mut state = self.state.lock();
        if !state.late_keys.iter().any(|late_key| late_key == key) {
            state.late_keys.push(key.to_owned());
        }
    }

    pub(crate) fn late_keys(&self) -> Vec<String> {
        self.state.lock().late_keys.clone()
    }

    /// Retires the lease if it has no claims, and was unused for one ttl or takes no new claims.
    /// Returns true if the lease may then be revoked.
    pub(crate) fn retire_if_unused(&self) -> bool {
        let mut state = self.state.lock();
        let idle = Clock::Boot.now().since(state.unused_since) >= state.lease.ttl;
        let unused = state.claims.is_empty() && (state.retired || state.is_superseded || idle);
        state.retired |= unused;
        unused
    }

    /// Ends the lease, and reports the reason to its claims.
    pub(crate) fn end_with(&self, reason: LossReason) {
        let mut state = self.state.lock();
        state.retired = true;
        let claims = std::mem::take(&mut state.claims);
        drop(state);
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(reason);
            is_first
        });
        self.changed.notify_one();
        self.moved.notify_waiters();
        claims
            .values()
            .for_each(|attached| attached.loss.lost(reason));
    }

    /// Ends the lease if `id` is its present id: the servers do not know that lease.
    pub(crate) fn note_missing(&self, id: i64) {
        if self.id() == id {
            self.end_with(LossReason::Removed);
        }
    }

    /// Returns the reason of its end; `None` while the lease lives.
    pub(crate) fn end(&self) -> Option<LossReason> {
        *self.end.borrow()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        let mut end = self.end.subscribe();
        // An error would mean that the sender is gone, which `self` holds.
        let _outcome = end.wait_for(Option::is_some).await;
    }

    /// Keeps the lease alive once.
    ///
    /// # Errors
    ///
    /// If it is unknown whether the lease is alive, or if its term is over.
    pub(crate) async fn confirm(&self) -> Result<()> {
        let readable = || self.readable.get().cloned();
        let id = {
            let state = self.state.lock();
            if state.is_superseded {
                return Err(leader_changed());
            }
            state.lease.id
        };
        let (told, agreed) = self.keep_alive.renew(id, readable, self.limit()).await?;
        if self.note(id, told, agreed)? {
            self.end_with(LossReason::Removed);
        }
        Ok(())
    }

    /// Returns how long to wait for an answer.
    fn limit(&self) -> Duration {
        let (_, ttl) = self.counted_on();
        (ttl / 4).clamp(LIMIT_MIN, LIMIT_MAX)
    }

    /// Notes the answer to a keep-alive, and the term that the members agreed on after it. Returns
    /// true if the lease has ended.
    fn note(&self, id: i64, told: KeptAlive, agreed: Option<u64>) -> Result<bool> {
        let mut state = self.state.lock();
        if state.lease.id != id || state.is_superseded {
            return Err(leader_changed());
        }
        // A member that does not know of a later term may know nothing of leases that were granted
        // or kept alive in it.
        let is_outdated = agreed.is_some() && told.term().is_some_and(|term| Some(term) != agreed);
        if !is_outdated && matches!(told, KeptAlive::Gone { .. }) {
            return Ok(true);
        }
        let now = agreed.max(told.term()).unwrap_or_default();
        if now > state.lease.term {
            state.is_superseded = true;
            self.granting.note_term(now);
            self.changed.notify_one();
            return Err(leader_changed());
        }
        if is_outdated {
            return Err(leader_changed());
        }
        if let KeptAlive::For { sent, ttl, .. } = told
            && state.lease.sent < sent
        {
            (state.lease.sent, state.lease.ttl) = (sent, ttl);
            state.by_a_majority = agreed.is_some();
        }
        Ok(false)
    }

    /// Returns true if there is a later term, so that confirmations do not count.
    pub(crate) fn is_superseded(&self) -> bool {
        self.state.lock().is_superseded
    }

    /// Grants the next lease and attaches new claims to it. Continues a move that has begun.
    /// Returns the former lease and the next lease.
    pub(crate) async fn begin_move(&self) -> Result<(i64, GrantedLease)> {
        let (former, next) = {
            let state = self.state.lock();
            (state.lease, state.next)
        };
        let next = match next {
            Some(next) => next,
            None => self.granting.grant(self.claim, former.ttl).await?,
        };
        self.state.lock().next = Some(next);
        Ok((former.id, next))
    }

    /// Waits until all claims have moved, which the maintaining task does.
    async fn has_moved(&self) -> Result<()> {
        let moving = async {
            loop {
                let mut moved = pin!(self.moved.notified());
                moved.as_mut().enable();
                if !self.is_superseded() || self.end().is_some() {
                    return;
                }
                moved.await;
            }
        };
        let moved = self.keep_alive.within(self.limit(), moving).await;
        moved.ok_or_else(leader_changed)
    }

    /// Returns the keys that have to move, each once: a hold that changes its mode has two claims on
    /// one key, and servers refuse a transaction that writes a key twice.
    pub(crate) fn keys(&self) -> Vec<Arc<str>> {
        let state = self.state.lock();
        let claims = state.claims.values();
        let keys: BTreeSet<Arc<str>> = claims.filter_map(|claim| claim.key.clone()).collect();
        keys.into_iter().collect()
    }

    /// Ends the move to the lease `next`.
    pub(crate) fn end_move(&self, next: GrantedLease) {
        let mut state = self.state.lock();
        (state.lease, state.next) = (next, None);
        (state.by_a_majority, state.is_superseded) = (true, false);
        drop(state);
        self.moved.notify_waiters();
    }

    /// Returns a recent confirmation, and requests it if necessary: a grant should not need a
    /// renewal at once, and the lease has to last for its minimum hold.
    pub(crate) async fn fresh(&self, min_hold: Duration) -> Result<(Moment, Duration)> {
        let lasts = || {
            let (sent, ttl) = self.confirmed();
            min_hold.is_zero() || sent.plus(ttl) >= Clock::Boot.now().plus(min_hold)
        };
        let (sent, ttl) = self.counted_on();
        let by_a_majority = self.state.lock().by_a_majority;
        if !by_a_majority || Clock::Boot.now() > sent.plus(ttl * 3 / 10) || !lasts() {
            match self.confirm().await {
                Err(_) if self.is_superseded() => self.has_moved().await?,
                outcome => outcome?,
            }
        }
        match self.end() {
            None if lasts() => Ok(self.confirmed()),
            None => Err(no_answer(self.limit())),
            Some(_) => Err(lease_ended()),
        }
    }
}

impl LeaseState {
    /// Returns the id of the lease that new claims are attached to.
    fn id(&self) -> i64 {
        self.next.unwrap_or(self.lease).id
    }
}
