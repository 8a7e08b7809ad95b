//! The poller: one task looks at all leased keys that a client's waiters wait for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Attendance, BatchSize, Clock, Moment, Mutex, OnDemand, ReplyStats};
use lock_core::{Mode, Result};
use tokio::sync::Notify;

use crate::connection::pool::Pool;
use crate::error::Failure;
use crate::lease::key_state::KeyState;
use crate::lease::places::{PLACE_ENTERED_ANEW, row_beside};
use crate::schema::names::Names;
use crate::server_checks::MAY_WRITE;

/// Shortest and longest pause between two looks. The pause doubles after each look.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// Interval at which a waiter checks the poller. A waiter relies on a look for twice as long.
const TRUST: Duration = Duration::from_secs(1);

const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// Maximum number of keys in one packet. For many more keys, MySQL reads the whole table.
const BATCH: usize = 20_000;

/// Maximum number of places that one packet enters.
const PLACES: usize = 100;

/// The waiters of a client on one runtime. One task looks at their keys while there are waiters.
pub(crate) struct Poller {
    names: Arc<Names>,
    pool: Arc<Pool>,
    heard: Arc<ReplyStats>,
    /// When the last look was answered.
    looked: Mutex<Moment>,
    batch: BatchSize,
    waiting: Mutex<WatchedKeys>,
    attended: OnDemand,
    entered: Notify,
}

#[derive(Default)]
struct WatchedKeys {
    keys: HashMap<Vec<u8>, WatchedKey>,
    /// The keys whose places the next look gives up.
    left: Vec<Vec<u8>>,
}

/// A key with a waiter.
struct WatchedKey {
    mode: Mode,
    changed: Arc<Notify>,
    /// The token of the last grant, once a look has read it.
    last_token: Option<u64>,
    /// True if another claim got the key during the wait.
    was_passed: bool,
    /// When this client last entered the key's place; `None` if the client is not in the place.
    entered_place: Option<Moment>,
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
            attended: OnDemand::default(),
            entered: Notify::new(),
        })
    }

    /// Enters a waiter for `key`. A key has one entry, since the local queue admits one waiter per
    /// key.
    pub(crate) fn watch(self: &Arc<Self>, key: Vec<u8>, mode: Mode) -> WakeUp {
        let changed = Arc::new(Notify::new());
        let waiter = WatchedKey {
            mode,
            changed: Arc::clone(&changed),
            last_token: None,
            was_passed: false,
            entered_place: None,
        };
        self.waiting.lock().keys.insert(key.clone(), waiter);
        if let Some(attendance) = self.attended.begin() {
            let polling = poll(Arc::clone(self), attendance);
            self.pool.runtime.spawn(polling);
        }
        self.entered.notify_one();
        WakeUp {
            poller: Arc::clone(self),
            key,
            changed,
        }
    }

    /// Wakes the waiter for `key`, so that it asks the server again.
    pub(crate) fn wake(&self, key: &[u8]) {
        if let Some(waiter) = self.waiting.lock().keys.get(key) {
            waiter.changed.notify_one();
        }
    }

    /// Looks at all keys, and wakes the waiters whose keys may be available.
    async fn look(&self) -> Result<PollOutcome> {
        let keys: Vec<Vec<u8>> = self.waiting.lock().keys.keys().cloned().collect();
        let (mut outcome, mut rest) = (PollOutcome::default(), keys.as_slice());
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
            self.note(batch, &states, &kept, &mut outcome);
            rest = later;
        }
        *self.looked.lock() = Clock::Boot.now();
        Ok(outcome)
    }

    /// Returns the statements that give up, enter and select places.
    fn places(&self) -> Vec<String> {
        let mut waiting = self.waiting.lock();
        let left = std::mem::take(&mut waiting.left);
        let mut statements: Vec<String> = left
            .iter()
            .map(|row| self.names.give_up_place(row))
            .collect();
        let now = Clock::Boot.now();
        for (row, waiter) in &mut waiting.keys {
            let is_due = |entered| now.since(entered) >= PLACE_ENTERED_ANEW;
            if waiter.was_passed
                && waiter.entered_place.is_none_or(is_due)
                && statements.len() < PLACES
            {
                waiter.entered_place = Some(now);
                statements.push(self.names.enter_place(row, waiter.mode));
            }
        }
        if !statements.is_empty() {
            statements.insert(0, MAY_WRITE.to_owned());
        }
        let entered = waiting.keys.iter();
        let entered = entered.filter(|(_, waiter)| waiter.entered_place.is_some());
        let entered: Vec<&[u8]> = entered.map(|(row, _)| row.as_slice()).take(BATCH).collect();
        if !entered.is_empty() {
            statements.push(self.names.look_at_places(&entered));
        }
        statements
    }

    /// Stores the result of a look at `rows`, and wakes the waiters whose keys may be available.
    fn note(
        &self,
        rows: &[Vec<u8>],
        states: &HashMap<Vec<u8>, KeyState>,
        kept: &HashSet<Vec<u8>>,
        outcome: &mut PollOutcome,
    ) {
        let mut waiting = self.waiting.lock();
        for row in rows {
            let Some(waiter) = waiting.keys.get_mut(row) else {
                continue;
            };
            let state = states.get(row);
            let was_passed = waiter.note_token(state.map_or(0, |state| state.token));
            let is_kept = kept.contains(row);
            outcome.is_next |= was_passed && is_kept;
            if !is_kept {
                waiter.entered_place = None;
            }
            match state.and_then(|state| state.left_for(waiter.mode)) {
                Some(left) => {
                    let soonest = outcome.soonest.map_or(left, |soonest| left.min(soonest));
                    outcome.soonest = Some(soonest);
                }
                None => waiter.changed.notify_one(),
            }
        }
    }

    /// Ends the task's attendance if it has no more work, and returns true if so.
    fn end_if_idle(&self) -> bool {
        let waiting = self.waiting.lock();
        let is_idle = waiting.keys.is_empty() && waiting.left.is_empty();
        if is_idle {
            self.attended.end();
        }
        is_idle
    }

    /// Returns true if the last look is recent enough for waiters to rely on.
    fn is_trusted(&self) -> bool {
        Clock::Boot.now().since(*self.looked.lock()) < TRUST * 2
    }
}

/// The outcome of a look at all keys.
#[derive(Default)]
struct PollOutcome {
    /// The time until the next holder expires.
    soonest: Option<Duration>,
    /// True if a key that another client just got is now kept for this client.
    is_next: bool,
}

impl WatchedKey {
    /// Stores the last grant's token. Returns true if another claim got the key since the last
    /// look.
    fn note_token(&mut self, token: u64) -> bool {
        let was_passed = self.last_token.is_some_and(|last| token > last);
        self.last_token = self.last_token.max(Some(token));
        self.was_passed |= was_passed;
        was_passed
    }
}

/// Looks at the keys until there are no waiters, and no places to give up.
async fn poll(poller: Arc<Poller>, _attendance: Attendance) {
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = Clock::Boot.now();
        let looked = poller.look().await;
        // The pause is at least as long as the look, so looks take at most half of the time.
        let took = Clock::Boot.now().since(begun);
        if poller.end_if_idle() {
            return;
        }
        let outcome = looked.unwrap_or_else(|error| {
            tracing::debug!(%error, "mysql: polling the keys of waiters failed, trying again");
            PollOutcome::default()
        });
        if outcome.is_next {
            pause = FIRST_PAUSE;
        }
        let soonest = outcome.soonest;
        let next = soonest.map_or(pause, |left| pause.min(left)).max(took);
        pause = (pause * 2).min(LONGEST_PAUSE);
        // Both arms are cancel safe: `Notify` stores a notification for the next turn of the loop.
        tokio::select! {
            () = poller.entered.notified() => {
                pause = FIRST_PAUSE;
                tokio::time::sleep(FIRST_PAUSE.max(took)).await;
            }
            () = tokio::time::sleep(next) => {}
        }
    }
}

/// A waiter's entry in the poller. Dropping it removes the entry.
pub(crate) struct WakeUp {
    poller: Arc<Poller>,
    key: Vec<u8>,
    changed: Arc<Notify>,
}

impl WakeUp {
    /// Waits until the key may be available, or the poller has not looked for a while.
    ///
    /// A change since the last call counts.
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
        let is_ours = |waiter: &WatchedKey| Arc::ptr_eq(&waiter.changed, &self.changed);
        if !waiting.keys.get(&self.key).is_some_and(is_ours) {
            return;
        }
        let waiter = waiting.keys.remove(&self.key);
        if waiter.is_some_and(|waiter| waiter.entered_place.is_some()) {
            waiting.left.push(std::mem::take(&mut self.key));
            drop(waiting);
            self.poller.entered.notify_one();
        }
    }
}
