//! A lease that all claims with the same ttl and lock delay stand under.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Clock, LossReason, LossSender, Mode, Moment, Mutex, OwnerId, Result};
use tokio::sync::{Notify, watch};

use crate::error::{leader_changed, lease_ended};
use crate::lease::grant::{Granted, Granting};
use crate::lease::keep_alive::{KeepAlive, KeptAlive};

/// The time that an answer to a keep-alive may take at least, and at most.
const LIMIT_MIN: Duration = Duration::from_millis(100);
const LIMIT_MAX: Duration = Duration::from_secs(1);

/// A lease on the servers.
///
/// It lasts for one term of the cluster. A leader that stood still for a while believes, when it goes on, that it
/// still leads, and ends all leases that it did not see kept alive meanwhile, though its successor did keep them
/// alive (<https://github.com/etcd-io/etcd/issues/15247>). So only what was confirmed in the term that it was granted
/// in counts, which that leader has seen; as soon as there is a later one, all who stand under it
/// [move](crate::moving) to a new lease, which takes its place here.
pub(crate) struct SharedLease {
    /// In whose name it is granted.
    owner: OwnerId,
    granting: Arc<Granting>,
    keep_alive: KeepAlive,
    /// The last part of its ttl, which no guard counts on.
    lock_delay: Duration,
    state: Mutex<State>,
    /// Something for whoever tends it to look at.
    pub(crate) changed: Notify,
    /// All have moved.
    moved: Notify,
    /// Why it ended.
    end: watch::Sender<Option<LossReason>>,
}

struct State {
    /// The lease that new claims stand under.
    id: i64,
    term: u64,
    /// When the last request was sent that the servers have confirmed.
    sent: Moment,
    ttl: Duration,
    /// True if more than one server has confirmed it, as they do a grant.
    by_a_majority: bool,
    /// There is a later term: all have to move.
    is_superseded: bool,
    /// Where they move from and to.
    moving: Option<Move>,
    /// A key that we may read, as an answered take has shown.
    readable: Option<Arc<str>>,
    /// The claims that stand under it, and how they are told of its end.
    claims: HashMap<OwnerId, Standing>,
    /// Nobody new may stand under it.
    retired: bool,
    unused_since: Moment,
    /// Keys to be deleted as long as it lives: something that puts them may still arrive.
    late_keys: Vec<String>,
}

/// From one lease to its successor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) from: i64,
    pub(crate) to: Granted,
}

/// One that stands under a lease.
struct Standing {
    loss: LossSender,
    /// Unknown before its first request.
    key: Option<(Arc<str>, Mode)>,
}

impl SharedLease {
    pub(crate) fn new(
        granted: Granted,
        owner: OwnerId,
        granting: Arc<Granting>,
        keep_alive: KeepAlive,
        lock_delay: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            owner,
            granting,
            keep_alive,
            lock_delay,
            state: Mutex::new(State {
                id: granted.id,
                term: granted.term,
                sent: granted.sent,
                ttl: granted.ttl,
                by_a_majority: true,
                is_superseded: false,
                moving: None,
                readable: None,
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

    /// Returns what new claims are to stand under.
    pub(crate) fn id(&self) -> i64 {
        self.state.lock().id
    }

    /// Where a key may stand that is ours: also under the one before, as long as not all have moved.
    pub(crate) fn ids(&self) -> Vec<i64> {
        let state = self.state.lock();
        let former = state.moving.map(|moving| moving.from);
        former.into_iter().chain([state.id]).collect()
    }

    /// Returns what the servers have confirmed: for how long it lives, and since when.
    pub(crate) fn confirmed(&self) -> (Moment, Duration) {
        let state = self.state.lock();
        (state.sent, state.ttl)
    }

    /// When the servers confirmed it last, and for how long guards count on that.
    pub(crate) fn counted_on(&self) -> (Moment, Duration) {
        let (sent, ttl) = self.confirmed();
        (sent, ttl.saturating_sub(self.lock_delay))
    }

    /// Lets a claim stand under it; `false` when it takes no more.
    pub(crate) fn enter(&self, owner: OwnerId, loss: LossSender) -> bool {
        let mut state = self.state.lock();
        if state.retired || self.end().is_some() {
            return false;
        }
        state.claims.insert(owner, Standing { loss, key: None });
        true
    }

    /// Notes which key a claim has, before it is put there.
    pub(crate) fn stands(&self, owner: OwnerId, key: Arc<str>, mode: Mode) {
        if let Some(standing) = self.state.lock().claims.get_mut(&owner) {
            standing.key = Some((key, mode));
        }
    }

    /// Notes that servers let us read `key`.
    pub(crate) fn may_read(&self, key: &str) {
        let mut state = self.state.lock();
        if state.readable.is_none() {
            state.readable = Some(key.into());
        }
    }

    /// Takes a claim out.
    pub(crate) fn leave(&self, owner: OwnerId) {
        let mut state = self.state.lock();
        state.claims.remove(&owner);
        if state.claims.is_empty() {
            state.unused_since = Clock::Boot.now();
            // Else it may be of use again, and is looked at with its next keep-alive.
            if state.retired || state.is_superseded {
                self.changed.notify_one();
            }
        }
    }

    /// Lets no new claim stand under it, so that it ends with those it has.
    pub(crate) fn retire(&self) {
        self.state.lock().retired = true;
        self.changed.notify_one();
    }

    /// Returns true if it takes no more claims.
    pub(crate) fn is_retired(&self) -> bool {
        self.state.lock().retired
    }

    /// Has `key` deleted again and again as long as the lease lives.
    pub(crate) fn delete_until_revoked(&self, key: &str) {
        let mut state = self.state.lock();
        if !state.late_keys.iter().any(|late_key| late_key == key) {
            state.late_keys.push(key.to_owned());
        }
    }

    pub(crate) fn late_keys(&self) -> Vec<String> {
        self.state.lock().late_keys.clone()
    }

    /// Retires it if nobody has stood under it for one ttl, or if nobody is left and it takes or keeps nobody more;
    /// whether it may be revoked then.
    pub(crate) fn retire_if_unused(&self) -> bool {
        let mut state = self.state.lock();
        let idle = Clock::Boot.now().since(state.unused_since) >= state.ttl;
        let unused = state.claims.is_empty() && (state.retired || state.is_superseded || idle);
        state.retired |= unused;
        unused
    }

    /// Ends it; tells those who stand under it why.
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
            .for_each(|standing| standing.loss.lost(reason));
    }

    /// Ends it if claims are still to stand under this one, which the servers do not know.
    pub(crate) fn note_missing(&self, id: i64) {
        if self.id() == id {
            self.end_with(LossReason::Removed);
        }
    }

    /// Why it has ended; `None` while it lives.
    pub(crate) fn end(&self) -> Option<LossReason> {
        *self.end.borrow()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        let mut end = self.end.subscribe();
        // An error would mean that nobody can end it any more.
        let _outcome = end.wait_for(Option::is_some).await;
    }

    /// Asks the servers to keep it alive.
    ///
    /// An error means that it is unknown whether it lives, or that it does not count any more.
    pub(crate) async fn confirm(&self) -> Result<()> {
        let readable = || self.state.lock().readable.clone();
        let id = {
            let state = self.state.lock();
            if state.is_superseded {
                return Err(leader_changed());
            }
            state.id
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

    /// Notes what was told about it, and the term that the members agreed on afterwards; whether it has ended.
    fn note(&self, id: i64, told: KeptAlive, agreed: Option<u64>) -> Result<bool> {
        let mut state = self.state.lock();
        if state.id != id || state.is_superseded {
            return Err(leader_changed());
        }
        // Whoever does not know of a later term may know nothing of what was granted or kept alive in it.
        let is_outdated = agreed.is_some() && told.term().is_some_and(|term| Some(term) != agreed);
        if !is_outdated && matches!(told, KeptAlive::Gone { .. }) {
            return Ok(true);
        }
        let now = agreed.max(told.term()).unwrap_or_default();
        if now > state.term {
            state.is_superseded = true;
            self.granting.note_term(now);
            self.changed.notify_one();
            return Err(leader_changed());
        }
        if is_outdated {
            return Err(leader_changed());
        }
        if let KeptAlive::For { sent, ttl, .. } = told
            && state.sent < sent
        {
            (state.sent, state.ttl) = (sent, ttl);
            state.by_a_majority = agreed.is_some();
        }
        Ok(false)
    }

    /// Returns true if there is a later term, so that it counts no more.
    pub(crate) fn is_superseded(&self) -> bool {
        self.state.lock().is_superseded
    }

    /// Has new claims stand under another lease, where the others are to move. Goes on with a move that has begun.
    pub(crate) async fn begin_move(&self) -> Result<Move> {
        let (begun, asked) = {
            let state = self.state.lock();
            (state.moving, state.ttl)
        };
        if let Some(begun) = begun {
            return Ok(begun);
        }
        let to = self.granting.grant(self.owner, asked).await?;
        let mut state = self.state.lock();
        let moving = Move { from: state.id, to };
        (state.id, state.moving) = (to.id, Some(moving));
        Ok(moving)
    }

    /// Waits until all have moved, which somebody else sees to.
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

    /// The keys that move.
    pub(crate) fn keys(&self) -> Vec<(Arc<str>, Mode)> {
        let state = self.state.lock();
        let claims = state.claims.values();
        claims.filter_map(|claim| claim.key.clone()).collect()
    }

    /// Notes that all keys have moved.
    pub(crate) fn end_move(&self, to: Granted) {
        let mut state = self.state.lock();
        (state.term, state.sent, state.ttl) = (to.term, to.sent, to.ttl);
        (state.by_a_majority, state.is_superseded, state.moving) = (true, false, None);
        drop(state);
        self.moved.notify_waiters();
    }

    /// Returns what the servers have confirmed a short while ago, or do now: a grant under it should not have
    /// to be renewed at once.
    pub(crate) async fn fresh(&self) -> Result<(Moment, Duration)> {
        let (sent, ttl) = self.counted_on();
        let by_a_majority = self.state.lock().by_a_majority;
        if !by_a_majority || Clock::Boot.now() > sent.plus(ttl * 3 / 10) {
            match self.confirm().await {
                Err(_) if self.is_superseded() => self.has_moved().await?,
                outcome => outcome?,
            }
        }
        match self.end() {
            None => Ok(self.confirmed()),
            Some(_) => Err(lease_ended()),
        }
    }
}

impl fmt::Debug for SharedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLease")
            .field("id", &format_args!("{:x}", self.id()))
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}
