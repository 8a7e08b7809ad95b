//! A lease that all claims with the same ttl and lock delay stand under.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, LossReason, LossSender, Moment, OwnerId, Result};
use tokio::sync::{Notify, watch};

use crate::error::lease_ended;
use crate::keep_alive::{KeepAlive, KeptAlive};

/// How long an answer to a keep-alive may take at least, and at most.
const LIMIT_MIN: Duration = Duration::from_millis(100);
const LIMIT_MAX: Duration = Duration::from_secs(1);

/// A lease on the servers.
pub(crate) struct SharedLease {
    id: i64,
    keep_alive: KeepAlive,
    /// The last part of its ttl, which no guard counts on.
    lock_delay: Duration,
    state: Mutex<State>,
    /// Something for whoever tends it to look at.
    pub(crate) changed: Notify,
    /// Why it ended.
    end: watch::Sender<Option<LossReason>>,
}

struct State {
    /// When the last request was sent that the servers have confirmed.
    sent: Moment,
    ttl: Duration,
    /// Whether more than one server has confirmed it, as they do a grant.
    by_a_majority: bool,
    /// A key that we may read, as an answered take has shown.
    readable: Option<Arc<str>>,
    /// Who stands under it, and how they are told of its end.
    claims: HashMap<OwnerId, LossSender>,
    /// Nobody new may stand under it.
    retired: bool,
    unused_since: Moment,
    /// Keys to be deleted as long as it lives: something that puts them may still arrive.
    ghosts: Vec<String>,
}

impl SharedLease {
    pub(crate) fn new(
        id: i64,
        keep_alive: KeepAlive,
        sent: Moment,
        ttl: Duration,
        lock_delay: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            keep_alive,
            lock_delay,
            state: Mutex::new(State {
                sent,
                ttl,
                by_a_majority: true,
                readable: None,
                claims: HashMap::new(),
                retired: false,
                unused_since: Clock::Boot.now(),
                ghosts: Vec::new(),
            }),
            changed: Notify::new(),
            end: watch::Sender::new(None),
        })
    }

    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// What the servers have confirmed: for how long it lives, and since when.
    pub(crate) fn confirmed(&self) -> (Moment, Duration) {
        let state = self.lock();
        (state.sent, state.ttl)
    }

    /// When the servers confirmed it last, and for how long guards count on that.
    pub(crate) fn counted_on(&self) -> (Moment, Duration) {
        let (sent, ttl) = self.confirmed();
        (sent, ttl.saturating_sub(self.lock_delay))
    }

    /// Lets a claim stand under it; `false` when it takes no more.
    pub(crate) fn enter(&self, owner: OwnerId, loss: LossSender) -> bool {
        let mut state = self.lock();
        if state.retired || self.end().is_some() {
            return false;
        }
        state.claims.insert(owner, loss);
        true
    }

    /// Notes that servers let us read `key`.
    pub(crate) fn may_read(&self, key: &str) {
        let mut state = self.lock();
        if state.readable.is_none() {
            state.readable = Some(key.into());
        }
    }

    /// Takes a claim out.
    pub(crate) fn leave(&self, owner: OwnerId) {
        let mut state = self.lock();
        state.claims.remove(&owner);
        if state.claims.is_empty() {
            state.unused_since = Clock::Boot.now();
            self.changed.notify_one();
        }
    }

    /// Lets no new claim stand under it, so that it ends with those it has.
    pub(crate) fn retire(&self) {
        self.lock().retired = true;
        self.changed.notify_one();
    }

    /// Whether it takes no more claims.
    pub(crate) fn is_retired(&self) -> bool {
        self.lock().retired
    }

    /// Has `key` deleted again and again as long as the lease lives.
    pub(crate) fn haunt(&self, key: &str) {
        let mut state = self.lock();
        if !state.ghosts.iter().any(|ghost| ghost == key) {
            state.ghosts.push(key.to_owned());
        }
    }

    pub(crate) fn ghosts(&self) -> Vec<String> {
        self.lock().ghosts.clone()
    }

    /// Retires it if nobody has stood under it for one ttl, or if it is retired and nobody is left;
    /// whether it may be revoked then.
    pub(crate) fn retire_if_unused(&self) -> bool {
        let mut state = self.lock();
        let idle = Clock::Boot.now().since(state.unused_since) >= state.ttl;
        let unused = state.claims.is_empty() && (state.retired || idle);
        state.retired |= unused;
        unused
    }

    /// Ends it; tells those who stand under it why.
    pub(crate) fn end_with(&self, reason: LossReason) {
        let mut state = self.lock();
        state.retired = true;
        let claims = std::mem::take(&mut state.claims);
        drop(state);
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(reason);
            is_first
        });
        self.changed.notify_one();
        claims.values().for_each(|loss| loss.lost(reason));
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
    /// An error means that it is unknown whether it lives.
    pub(crate) async fn confirm(&self) -> Result<()> {
        let (_, ttl) = self.counted_on();
        let limit = (ttl / 4).clamp(LIMIT_MIN, LIMIT_MAX);
        let readable = || self.lock().readable.clone();
        let (told, by_a_majority) = self.keep_alive.renew(self.id, readable, limit).await?;
        match told {
            KeptAlive::For { sent, ttl, .. } => {
                let mut state = self.lock();
                if state.sent < sent {
                    (state.sent, state.ttl) = (sent, ttl);
                    state.by_a_majority = by_a_majority;
                }
            }
            KeptAlive::Gone { .. } => self.end_with(LossReason::Removed),
        }
        Ok(())
    }

    /// What the servers have confirmed a short while ago, or do now: a grant under it should not have
    /// to be renewed at once.
    pub(crate) async fn fresh(&self) -> Result<(Moment, Duration)> {
        let (sent, ttl) = self.counted_on();
        let by_a_majority = self.lock().by_a_majority;
        if !by_a_majority || Clock::Boot.now() > sent.plus(ttl * 3 / 10) {
            self.confirm().await?;
        }
        match self.end() {
            None => Ok(self.confirmed()),
            Some(_) => Err(lease_ended()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLease")
            .field("id", &format_args!("{:x}", self.id))
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}
