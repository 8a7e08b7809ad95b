//! Waits for keys that are leased: one task looks at all of them together.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{BatchSize, Clock, Moment, Mutex, ReplyStats};
use lock_core::{Mode, Result};
use tokio::sync::Notify;

use crate::connection::pool::Pool;
use crate::error::Failure;
use crate::lease::key_state::KeyState;
use crate::lease::places::{PLACE_ENTERED_ANEW, row_beside};
use crate::schema::names::Names;
use crate::server_checks::MAY_WRITE;

/// The intervals at which the poller looks: short at first, and longer the longer nothing changes.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// The time after its last look during which a waiter still relies on the poller.
const TRUST: Duration = Duration::from_secs(1);

/// The time that a look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// The number of keys that are looked at in one packet, at most: MySQL reads the whole table for many more.
const BATCH: usize = 20_000;

/// The number of places that are taken in one packet, at most.
const PLACES: usize = 100;

/// The waiters of a client on one runtime. While there are any, one task looks at their keys.
pub(crate) struct Poller {
    names: Arc<Names>,
    pool: Arc<Pool>,
    heard: Arc<ReplyStats>,
    /// When it looked last and was answered.
    looked: Mutex<Moment>,
    batch: BatchSize,
    waiting: Mutex<Waiting>,
    entered: Notify,
}

#[derive(Default)]
struct Waiting {
    keys: HashMap<Vec<u8>, Waiter>,
    /// The keys whose places are to be given up.
    left: Vec<Vec<u8>>,
    is_polled: bool,
}

struct Waiter {
    mode: Mode,
    changed: Arc<Notify>,
    passed: Passed,
}

/// The grants that other claims got while the key was waited for.
#[derive(Clone, Copy)]
enum Passed {
    /// It was not looked at yet.
    Unknown,
    /// The last grant is the one with this token.
    Not(u64),
    /// They did; when we entered the place beside the key, unless another client is in it.
    By(u64, Option<Moment>),
}

impl Poller {
    pub(crate) fn new(names: Arc<Names>, pool: Arc<Pool>, heard: Arc<ReplyStats>) -> Arc<Self> {
        Arc::new(Self {
            names,
            pool,
            heard,
            looked: Mutex::new(Clock::Boot.now()),
            batch: BatchSize::new(BATCH),
            waiting: Mutex::default(),
            entered: Notify::new(),
        })
    }

    /// Enters a waiter for `key`. The local queue lets one waiter per key through, so there is one entry.
    pub(crate) fn watch(self: &Arc<Self>, key: Vec<u8>, mode: Mode) -> WakeUp {
        let changed = Arc::new(Notify::new());
        let waiter = Waiter {
            mode,
            changed: Arc::clone(&changed),
            passed: Passed::Unknown,
        };
        let mut waiting = self.waiting.lock();
        waiting.keys.insert(key.clone(), waiter);
        if !std::mem::replace(&mut waiting.is_polled, true) {
            self.pool
                .driven
                .runtime
                .spawn(PollingTask(Arc::clone(self)).run());
        }
        drop(waiting);
        self.entered.notify_one();
        WakeUp {
            poller: Arc::clone(self),
            key,
            changed,
        }
    }

    /// Has the waiter for `key` look again.
    pub(crate) fn wake(&self, key: &[u8]) {
        if let Some(waiter) = self.waiting.lock().keys.get(key) {
            waiter.changed.notify_one();
        }
    }

    /// Looks at all keys and wakes those whose time has come.
    async fn look(&self) -> Result<Seen> {
        let keys: Vec<Vec<u8>> = self.waiting.lock().keys.keys().cloned().collect();
        let (mut seen, mut rest) = (Seen::default(), keys.as_slice());
        let (mut places, mut kept) = (self.places(), HashSet::new());
        while !rest.is_empty() || !places.is_empty() {
            let (batch, later) = rest.split_at(self.batch.get().min(rest.len()));
            let mut statements = std::mem::take(&mut places);
            let sent = Clock::Boot.now();
            if !batch.is_empty() {
                let keys = batch.iter().map(Vec::as_slice);
                statements.push(self.names.look(keys));
            }
            let answer = match self.pool.ask(statements.join(";"), LOOK_LIMIT).await {
                Ok(answer) => answer,
                Err(Failure::TooLarge(_)) if self.batch.halve(batch.len()) => continue,
                Err(failure) => return Err(failure.into_error()),
            };
            self.heard.note(sent);
            let mut states = HashMap::new();
            for row in answer.rows() {
                let name: Vec<u8> = row.value(0)?;
                match row_beside(&name) {
                    Some(row) => drop(kept.insert(row.to_vec())),
                    None => drop(states.insert(name, KeyState::read(&row)?)),
                }
            }
            self.note(batch, &states, &kept, &mut seen);
            rest = later;
        }
        *self.looked.lock() = Clock::Boot.now();
        Ok(seen)
    }

    /// Returns what is to be said of places, in statements.
    fn places(&self) -> Vec<String> {
        let mut waiting = self.waiting.lock();
        let left = std::mem::take(&mut waiting.left);
        let mut statements: Vec<String> = left
            .iter()
            .map(|row| self.names.give_up_place(row))
            .collect();
        let now = Clock::Boot.now();
        for (row, waiter) in &mut waiting.keys {
            if let Passed::By(_, entered) = &mut waiter.passed
                && entered.is_none_or(|entered| now.since(entered) >= PLACE_ENTERED_ANEW)
                && statements.len() < PLACES
            {
                *entered = Some(now);
                statements.push(self.names.enter_place(row, waiter.mode));
            }
        }
        if !statements.is_empty() {
            statements.insert(0, MAY_WRITE.to_owned());
        }
        let entered = waiting.keys.iter();
        let entered = entered.filter(|(_, waiter)| waiter.may_have_place());
        let entered: Vec<&[u8]> = entered.map(|(row, _)| row.as_slice()).take(BATCH).collect();
        if !entered.is_empty() {
            statements.push(self.names.look_at_places(&entered));
        }
        statements
    }

    /// Takes note of how keys are that were looked at.
    fn note(
        &self,
        rows: &[Vec<u8>],
        states: &HashMap<Vec<u8>, KeyState>,
        kept: &HashSet<Vec<u8>>,
        seen: &mut Seen,
    ) {
        let mut waiting = self.waiting.lock();
        for row in rows {
            let Some(waiter) = waiting.keys.get_mut(row) else {
                continue;
            };
            let state = states.get(row);
            let was_passed = waiter.was_passed(state.map_or(0, |state| state.token));
            let is_kept = kept.contains(row);
            seen.is_next |= was_passed && is_kept;
            if let (Passed::By(_, entered), false) = (&mut waiter.passed, is_kept) {
                *entered = None;
            }
            match state.and_then(|state| state.left_for(waiter.mode)) {
                Some(left) => {
                    seen.soonest = Some(seen.soonest.map_or(left, |soonest| left.min(soonest)))
                }
                None => waiter.changed.notify_one(),
            }
        }
    }

    /// Returns true if it has looked at all keys a moment ago.
    fn is_trusted(&self) -> bool {
        Clock::Boot.now().since(*self.looked.lock()) < TRUST * 2
    }
}

/// The outcome of a look at all keys.
#[derive(Default)]
struct Seen {
    /// When the next holder expires.
    soonest: Option<Duration>,
    /// True if a key that another client just got is kept for this one from now on.
    is_next: bool,
}

impl Waiter {
    /// Takes note of the last grant's token. Returns true if another claim got the key since the last look.
    fn was_passed(&mut self, token: u64) -> bool {
        let (last, taken) = match self.passed {
            Passed::Unknown => {
                self.passed = Passed::Not(token);
                return false;
            }
            Passed::Not(last) => (last, None),
            Passed::By(last, taken) => (last, taken),
        };
        if token > last {
            self.passed = Passed::By(token, taken);
        }
        token > last
    }

    fn may_have_place(&self) -> bool {
        matches!(self.passed, Passed::By(_, Some(_)))
    }
}

/// The task; its end, whatever the cause, lets the next waiter start another one.
struct PollingTask(Arc<Poller>);

impl PollingTask {
    async fn run(self) {
        let poller = Arc::clone(&self.0);
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Clock::Boot.now();
            let looked = poller.look().await;
            // Half of the time at most, however many keys there are.
            let took = Clock::Boot.now().since(begun);
            if self.is_over() {
                return;
            }
            let seen = looked.unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot look at the keys that are waited for");
                Seen::default()
            });
            if seen.is_next {
                pause = FIRST_PAUSE;
            }
            let next = seen.soonest.map_or(pause, |left| pause.min(left)).max(took);
            pause = (pause * 2).min(LONGEST_PAUSE);
            // Both arms are cancel safe: a notification that is missed stays for the next turn.
            tokio::select! {
                () = poller.entered.notified() => {
                    pause = FIRST_PAUSE;
                    tokio::time::sleep(FIRST_PAUSE.max(took)).await;
                }
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        let mut waiting = self.0.waiting.lock();
        waiting.is_polled = !waiting.keys.is_empty() || !waiting.left.is_empty();
        !waiting.is_polled
    }
}

impl Drop for PollingTask {
    fn drop(&mut self) {
        self.0.waiting.lock().is_polled = false;
    }
}

/// A waiter's entry; dropping it takes it out.
pub(crate) struct WakeUp {
    poller: Arc<Poller>,
    key: Vec<u8>,
    changed: Arc<Notify>,
}

impl WakeUp {
    /// Waits until the key may be free, or was not looked at for a while. What happened since the
    /// last call counts.
    pub(crate) async fn changed(&self) {
        loop {
            tokio::select! {
                () = self.changed.notified() => return,
                () = tokio::time::sleep(TRUST) => {}
            }
            if !self.poller.is_trusted() {
                return;
            }
        }
    }
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        let mut waiting = self.poller.waiting.lock();
        let is_ours = |waiter: &Waiter| Arc::ptr_eq(&waiter.changed, &self.changed);
        if !waiting.keys.get(&self.key).is_some_and(is_ours) {
            return;
        }
        let waiter = waiting.keys.remove(&self.key);
        if waiter.is_some_and(|waiter| waiter.may_have_place()) {
            waiting.left.push(std::mem::take(&mut self.key));
            drop(waiting);
            self.poller.entered.notify_one();
        }
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller")
            .field("keys", &self.waiting.lock().keys.len())
            .finish_non_exhaustive()
    }
}
