//! The state that all waiters of a client for one key share: their queue, and one task that watches it.
//!
//! Claims are served in order, so those that hold the key are always the first of the queue, and none of a
//! client's waiters is let in before the first of them. So one watch, of what the first one waits for, does for
//! all, and one list of claims.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Clock, Error, Moment, Mutex};
use tokio::sync::{Notify, oneshot};

use crate::error::unexpected;
use crate::queue::{Blocker, Queue};

/// The waiters of a client for one key.
pub(crate) struct SharedWait {
    pub(crate) queue: String,
    state: Mutex<State>,
    /// There is another first waiter, or one wants to know.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct State {
    /// By their places in the queue.
    waiters: BTreeMap<i64, Waiter>,
    /// The claims as far as they are known, and not known to have gone.
    claims: Queue,
    /// All claims that were created until then, and have not gone since, are among `claims`.
    known_until: i64,
    /// The last revision in which a claim is known to have gone.
    last_gone: i64,
    /// When the servers were last asked who say that the first waiter still waits.
    checked: Option<Moment>,
    /// The claim that kept it out in this later revision, too.
    seen: Option<(Blocker, i64)>,
    is_check_wanted: bool,
}

pub(crate) struct Waiter {
    pub(crate) key: Arc<str>,
    pub(crate) tell: oneshot::Sender<Told>,
}

/// The news for a waiter.
#[derive(Debug)]
pub(crate) enum Told {
    /// All claims before it that keep it out have gone.
    Next,
    /// Its own claim is not there any more.
    Gone,
    /// The servers cannot be asked, or say that it waits in vain.
    Failed(Error),
}

/// The next step for the waiters.
pub(crate) enum Step {
    /// Nobody waits any more.
    End,
    /// Lists the claims; this key is one of ours.
    List(Arc<str>),
    /// Watches what keeps the first waiter out, from this revision on.
    Watch(Blocker, i64),
}

/// A key to be looked at: as it was created then.
pub(crate) struct Look {
    pub(crate) key: Vec<u8>,
    pub(crate) created: i64,
}

impl SharedWait {
    pub(crate) fn new(queue: &str) -> Arc<Self> {
        Arc::new(Self {
            queue: queue.to_owned(),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Enters a waiter whose claim was `created` then; `seen` is what its take was answered with.
    pub(crate) fn enter(&self, created: i64, waiter: Waiter, seen: Option<Queue>) {
        let mut state = self.state.lock();
        state.waiters.insert(created, waiter);
        if let Some(seen) = seen
            && !seen.is_partial()
            && created > state.known_until
            // Else it has claims that are known to have gone, of which nobody is told again.
            && seen.revision >= state.last_gone
        {
            (state.claims, state.known_until) = (seen, created);
        }
        if state.is_first(created) {
            self.changed.notify_one();
        }
    }

    /// Tells those whose turn it is, and says what the others need.
    pub(crate) fn advance(&self) -> Step {
        let mut state = self.state.lock();
        state.tell_next();
        let Some((created, waiter)) = state.waiters.first_key_value() else {
            return Step::End;
        };
        match state.claims.blocker_of(*created) {
            Some(blocking_claim) if *created <= state.known_until => {
                let since = state.seen_in(&blocking_claim);
                Step::Watch(blocking_claim, since)
            }
            _ => Step::List(Arc::clone(&waiter.key)),
        }
    }

    /// Returns true if nobody waits any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().waiters.is_empty()
    }

    /// Has the claims listed anew: some may have gone unheard.
    pub(crate) fn mark_stale(&self) {
        self.state.lock().known_until = 0;
    }

    /// Takes note of a claim that has gone in this revision.
    pub(crate) fn note_gone(&self, key: &[u8], gone: i64) {
        let mut state = self.state.lock();
        state.claims.remove(key, gone);
        state.last_gone = state.last_gone.max(gone);
    }

    /// In which revision the claims were as they are known.
    pub(crate) fn revision(&self) -> i64 {
        self.state.lock().claims.revision
    }

    /// Takes note of all claims, as they were `sent` for then, when they were known as in the revision `before`.
    pub(crate) fn note_list(&self, list: Queue, before: i64, sent: Moment) -> Result<(), Error> {
        let mut state = self.state.lock();
        let now = list.revision;
        if now < before {
            return Err(unexpected("a list of the past"));
        }
        if now < state.claims.revision {
            // A waiter has come meanwhile, and has brought a later one.
            return Ok(());
        }
        (state.claims, state.known_until) = (list, now);
        let listed = state.waiters.range(..=now).map(|(created, _)| *created);
        let told: Vec<(i64, Told)> = listed
            .filter_map(|created| match state.claims.check_ends(created) {
                _ if !state.claims.has(created) => Some((created, Told::Gone)),
                Ok(()) => None,
                Err(error) => Some((created, Told::Failed(error))),
            })
            .collect();
        for (created, told) in told {
            state.tell(created, told);
        }
        state.checked = Some(sent);
        Ok(())
    }

    /// The keys of the first waiter and of those who keep it out.
    pub(crate) fn looks(&self) -> Vec<Look> {
        let state = self.state.lock();
        let Some((created, waiter)) = state.waiters.first_key_value() else {
            return Vec::new();
        };
        let look = |created: i64, key: &[u8]| Look {
            key: key.to_vec(),
            created,
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

    /// Takes note of what was `sent` for then: whether each of `looks` was there in a revision. Where one was
    /// not, the claims have to be listed anew.
    pub(crate) fn note_looks(&self, looks: &[Look], found: &[(i64, bool)], sent: Moment) {
        let mut state = self.state.lock();
        // A member that lags behind does not know yet what it does not find.
        let is_news = |now: i64| now >= state.claims.revision;
        if !found.iter().all(|(now, _)| is_news(*now)) {
            return;
        }
        if found.iter().all(|(_, is_there)| *is_there) {
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
            .filter(|(_, (_, is_there))| !is_there);
        for (look, (now, _)) in gone {
            // Not one that has the same key by now.
            state.claims.remove(&look.key, look.created + 1);
            state.last_gone = state.last_gone.max(*now);
        }
        let (Some(own), Some((_, is_there))) = (looks.first(), found.first()) else {
            return;
        };
        if !is_there {
            state.tell(own.created, Told::Gone);
        } else if state.claims.blocker_of(own.created).is_some() {
            // Others before it may have gone as unheard.
            state.known_until = 0;
        }
    }

    /// Tells all that the servers cannot be asked.
    pub(crate) fn fail(&self, error: &Error) {
        let waiters = std::mem::take(&mut self.state.lock().waiters);
        for waiter in waiters.into_values() {
            // It may have gone.
            let _unheard = waiter.tell.send(Told::Failed(error.clone()));
        }
    }

    /// Returns true if a waiter wants to know how things stand, since the last time this was asked.
    pub(crate) fn takes_check(&self) -> bool {
        std::mem::take(&mut self.state.lock().is_check_wanted)
    }

    /// Has the servers asked how things stand, unless they were within the last `recently`.
    pub(crate) fn check(&self, recently: Duration) {
        let mut state = self.state.lock();
        let now = Clock::Boot.now();
        let is_known = state.checked.is_some_and(|at| now.since(at) < recently);
        if !is_known {
            state.is_check_wanted = true;
            self.changed.notify_one();
        }
    }

    /// When the servers were last asked who say that the first waiter still waits.
    pub(crate) fn checked(&self) -> Option<Moment> {
        self.state.lock().checked
    }

    /// Removes the waiter that was `created` then, if it is still there.
    pub(crate) fn leave(&self, created: i64) {
        let mut state = self.state.lock();
        let was_first = state.is_first(created);
        if state.waiters.remove(&created).is_some() && was_first {
            self.changed.notify_one();
        }
    }
}

impl State {
    fn is_first(&self, created: i64) -> bool {
        let first = self.waiters.first_key_value();
        first.is_none_or(|(first, _)| created <= *first)
    }

    /// Tells those whose turn it is.
    fn tell_next(&mut self) {
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
            self.tell(created, Told::Next);
        }
    }

    fn tell(&mut self, created: i64, told: Told) {
        if let Some(waiter) = self.waiters.remove(&created) {
            // It may have gone.
            let _unheard = waiter.tell.send(told);
        }
    }

    /// In which revision the claims were there that keep the first waiter out.
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
