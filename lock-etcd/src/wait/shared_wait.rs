//! The state that all waiters of a client for one key share: their queue, and one task that watches
//! it.
//!
//! Claims are served in order, so the holders are always the first claims of the queue. The first
//! waiter of a client always proceeds before its other waiters. So one watch and one list of claims
//! suffice for all waiters of the client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Clock, Moment, Mutex};
use lock_core::{Error, Mode};
use tokio::sync::{Notify, oneshot};

use crate::error::unexpected;
use crate::queue::{Blocker, ListedClaim, QueueSnapshot};

/// The waiters of a client for one key.
pub(crate) struct SharedWait {
    pub(crate) queue: String,
    state: Mutex<WaitState>,
    /// Notifies the task when the first waiter changes, or a waiter wants a check.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct WaitState {
    /// The waiters by the create revisions of their claims.
    waiters: BTreeMap<i64, TurnWaiter>,
    /// The known claims, without claims that are known to be deleted.
    claims: QueueSnapshot,
    /// The revision up to which `claims` has all claims that were created and not deleted.
    known_until: i64,
    /// The last revision in which a claim is known to have been deleted.
    last_gone: i64,
    /// When the last request was sent whose answer showed that the first waiter still has to wait.
    checked: Option<Moment>,
    /// The claim that blocks the first waiter, and a later revision in which it was still there.
    seen: Option<(Blocker, i64)>,
    is_check_wanted: bool,
}

pub(crate) struct TurnWaiter {
    pub(crate) key: Arc<str>,
    pub(crate) tell: oneshot::Sender<TurnNews>,
}

/// The news for a waiter.
#[derive(Debug)]
pub(crate) enum TurnNews {
    /// No earlier claim blocks it any more.
    Next,
    /// Its own claim is gone.
    Gone,
    /// The servers cannot be asked, or say that the wait never ends.
    Failed(Error),
}

/// The next step for the waiters.
pub(crate) enum WaitStep {
    /// There are no waiters.
    End,
    /// Lists the claims; the key belongs to a claim of this client.
    List(Arc<str>),
    /// Watches the blocker of the first waiter, from this revision on.
    Watch(Blocker, i64),
}

/// A key to look for, with its create revision.
pub(crate) struct KeyLookup {
    pub(crate) key: Vec<u8>,
    pub(crate) created: i64,
    /// The mode of the claim, as far as it is known.
    mode: Option<Mode>,
}

impl SharedWait {
    pub(crate) fn new(queue: &str) -> Arc<Self> {
        Arc::new(Self {
            queue: queue.to_owned(),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Adds a waiter with the create revision of its claim; `seen` is the answer to its take.
    pub(crate) fn enter(&self, created: i64, waiter: TurnWaiter, seen: Option<QueueSnapshot>) {
        let mut state = self.state.lock();
        state.waiters.insert(created, waiter);
        if let Some(seen) = seen
            && !seen.is_partial
            && created > state.known_until
            // An older answer may have claims whose deletion was reported already, and is not
            // reported again.
            && seen.revision >= state.last_gone
        {
            (state.claims, state.known_until) = (seen, created);
        }
        if state.is_first(created) {
            self.changed.notify_one();
        }
    }

    /// Wakes the waiters that may proceed, and returns the next step for the remaining waiters.
    pub(crate) fn advance(&self) -> WaitStep {
        let mut state = self.state.lock();
        state.notify_next();
        let Some((created, waiter)) = state.waiters.first_key_value() else {
            return WaitStep::End;
        };
        match state.claims.blocker_of(*created) {
            Some(blocking_claim) if *created <= state.known_until => {
                let since = state.seen_in(&blocking_claim);
                WaitStep::Watch(blocking_claim, since)
            }
            _ => WaitStep::List(Arc::clone(&waiter.key)),
        }
    }

    /// Returns true if there are no waiters.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().waiters.is_empty()
    }

    /// Notes that the claims have to be listed again: the deletion of some may not have been
    /// reported.
    pub(crate) fn mark_stale(&self) {
        self.state.lock().known_until = 0;
    }

    /// Notes that a claim was deleted in this revision.
    pub(crate) fn note_gone(&self, key: &[u8], gone: i64) {
        let mut state = self.state.lock();
        state.remove(key, gone);
        state.last_gone = state.last_gone.max(gone);
    }

    /// Notes that a claim was changed. If it has another mode now, the claims have to be listed
    /// again: it may admit a waiter.
    pub(crate) fn note_mode(&self, changed: &ListedClaim) {
        let mut state = self.state.lock();
        let known = state.claims.claim(changed.created);
        if known.is_some_and(|known| known.key == changed.key && known.mode != changed.mode) {
            state.known_until = 0;
        }
    }

    /// Returns the revision of the known claims.
    pub(crate) fn revision(&self) -> i64 {
        self.state.lock().claims.revision
    }

    /// Notes a new list of all claims, which was requested at `sent`. The known claims then had the
    /// revision `before`.
    pub(crate) fn note_list(
        &self,
        list: QueueSnapshot,
        before: i64,
        sent: Moment,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        let now = list.revision;
        if now < before {
            return Err(unexpected("a list of the past"));
        }
        if now < state.claims.revision {
            // A new waiter has brought a later list.
            return Ok(());
        }
        (state.claims, state.known_until) = (list, now);
        let listed = state.waiters.range(..=now).map(|(created, _)| *created);
        let told: Vec<(i64, TurnNews)> = listed
            .filter_map(|created| match state.claims.check_ends(created) {
                _ if !state.claims.has(created) => Some((created, TurnNews::Gone)),
                Ok(()) => None,
                Err(error) => Some((created, TurnNews::Failed(error))),
            })
            .collect();
        for (created, told) in told {
            state.notify(created, told);
        }
        state.checked = Some(sent);
        Ok(())
    }

    /// Returns the keys of the first waiter and of the claims that block it.
    pub(crate) fn looks(&self) -> Vec<KeyLookup> {
        let state = self.state.lock();
        let Some((created, waiter)) = state.waiters.first_key_value() else {
            return Vec::new();
        };
        let look = |created: i64, key: &[u8]| KeyLookup {
            key: key.to_vec(),
            created,
            mode: state.claims.claim(created).map(|claim| claim.mode),
        };
        let mut looks = vec![look(*created, waiter.key.as_bytes())];
        match state.claims.blocker_of(*created) {
            Some(Blocker::One(key, created)) => looks.push(look(created, &key)),
            Some(Blocker::Any) => {
                let holders = state.claims.holders();
                looks.extend(holders.map(|(created, key)| look(created, key)));
            }
            None => {}
        }
        looks
    }

    /// Notes the answers to `looks`, which were requested at `sent`. For each key an answer has a
    /// revision, and the mode of the claim if the key was there. If a key was missing or had another
    /// mode, the claims have to be listed again.
    pub(crate) fn note_looks(
        &self,
        looks: &[KeyLookup],
        found: &[(i64, Option<Mode>)],
        sent: Moment,
    ) {
        let mut state = self.state.lock();
        // A member that lags behind may not know a key yet.
        let is_news = |now: i64| now >= state.claims.revision;
        if !found.iter().all(|(now, _)| is_news(*now)) {
            return;
        }
        let has_changed = |(look, (_, mode)): (&KeyLookup, &(i64, Option<Mode>))| {
            mode.is_some() && look.mode.is_some() && *mode != look.mode
        };
        if looks.iter().zip(found).any(has_changed) {
            state.known_until = 0;
            return;
        }
        if found.iter().all(|(_, mode)| mode.is_some()) {
            state.checked = Some(sent);
            let first = looks
                .first()
                .and_then(|own| state.claims.blocker_of(own.created));
            let now = found.iter().map(|(now, _)| *now).min();
            state.seen = first.zip(now);
            return;
        }
        let gone = looks
            .iter()
            .zip(found)
            .filter(|(_, (_, mode))| mode.is_none());
        for (look, (now, _)) in gone {
            // Not a later claim with the same key.
            state.remove(&look.key, look.created + 1);
            state.last_gone = state.last_gone.max(*now);
        }
        let (Some(own), Some((_, mode))) = (looks.first(), found.first()) else {
            return;
        };
        if mode.is_none() {
            state.notify(own.created, TurnNews::Gone);
        } else if state.claims.blocker_of(own.created).is_some() {
            // Deletions of other claims before it may not have been reported either.
            state.known_until = 0;
        }
    }

    /// Tells all waiters that the servers cannot be asked.
    pub(crate) fn fail(&self, error: &Error) {
        let waiters = std::mem::take(&mut self.state.lock().waiters);
        for waiter in waiters.into_values() {
            // The waiter may be gone.
            let _unheard = waiter.tell.send(TurnNews::Failed(error.clone()));
        }
    }

    /// Returns true if a waiter has wanted a check since the last call.
    pub(crate) fn takes_check(&self) -> bool {
        std::mem::take(&mut self.state.lock().is_check_wanted)
    }

    /// Requests a check by the servers, unless the last check was within `recently`.
    pub(crate) fn check(&self, recently: Duration) {
        let mut state = self.state.lock();
        let now = Clock::Boot.now();
        let is_known = state.checked.is_some_and(|at| now.since(at) < recently);
        if !is_known {
            state.is_check_wanted = true;
            self.changed.notify_one();
        }
    }

    /// Returns when the last request was sent whose answer showed that the first waiter still has
    /// to wait.
    pub(crate) fn checked(&self) -> Option<Moment> {
        self.state.lock().checked
    }

    /// Removes the waiter with this create revision, if it is still there.
    pub(crate) fn leave(&self, created: i64) {
        let mut state = self.state.lock();
        let was_first = state.is_first(created);
        if state.waiters.remove(&created).is_some() && was_first {
            self.changed.notify_one();
        }
    }
}

impl WaitState {
    fn is_first(&self, created: i64) -> bool {
        let first = self.waiters.first_key_value();
        first.is_none_or(|(first, _)| created <= *first)
    }

    /// Wakes the waiters that may proceed.
    fn notify_next(&mut self) {
        let known = self.known_until;
        let Some(first) = self.waiters.first_key_value().map(|(first, _)| *first) else {
            return;
        };
        if first > known {
            return;
        }
        let holders = self.claims.holders().map(|(created, _)| created);
        let next: Vec<i64> = holders.filter(|created| first <= *created).collect();
        for created in next {
            self.notify(created, TurnNews::Next);
        }
    }

    /// Removes a claim that was deleted in the revision `gone`.
    ///
    /// Invariant: no waiter is told that it is next from old claims with an upgradeable one among
    /// them. Why: an upgradeable holder may have become exclusive while the deleted claim waited.
    /// Breaks if: a reader behind that claim is then let in beside it.
    fn remove(&mut self, key: &[u8], gone: i64) {
        if self.claims.remove(key, gone) && self.claims.has_upgradeable() {
            self.known_until = 0;
        }
    }

    fn notify(&mut self, created: i64, told: TurnNews) {
        if let Some(waiter) = self.waiters.remove(&created) {
            // The waiter may be gone.
            let _unheard = waiter.tell.send(told);
        }
    }

    /// Returns the last revision in which the claims that block the first waiter were seen.
    fn seen_in(&self, blocking_claim: &Blocker) -> i64 {
        let listed = self.claims.revision;
        match &self.seen {
            Some((seen, now)) if seen == blocking_claim => listed.max(*now),
            _ => listed,
        }
    }
}

#[cfg(test)]
mod tests;
