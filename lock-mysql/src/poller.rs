//! Who waits for keys that are leased, and looks at all of them together.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Heard, Mode, Moment, Result};
use tokio::sync::Notify;

use crate::batch::BatchSize;
use crate::error::Failure;
use crate::layout::Layout;
use crate::pool::Pool;
use crate::session::Fields;

/// How often the poller looks: soon at first, and less often the longer nothing changes.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// How long after its last look a waiter still relies on the poller.
const TRUST: Duration = Duration::from_secs(1);

/// How long a look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// How many keys are looked at in one packet, at most: MySQL reads the whole table for many more.
const BATCH: usize = 20_000;

/// The waiters of a client on one runtime. While there are any, one task looks at their keys.
pub(crate) struct Poller {
    layout: Arc<Layout>,
    pool: Arc<Pool>,
    heard: Arc<Heard>,
    /// When it looked last and was answered.
    looked: Mutex<Moment>,
    batch: BatchSize,
    waiting: Mutex<Waiting>,
    entered: Notify,
}

#[derive(Default)]
struct Waiting {
    keys: HashMap<Vec<u8>, Waiter>,
    is_polled: bool,
}

#[derive(Clone)]
struct Waiter {
    mode: Mode,
    changed: Arc<Notify>,
}

impl Poller {
    pub(crate) fn new(layout: Arc<Layout>, pool: Arc<Pool>, heard: Arc<Heard>) -> Arc<Self> {
        Arc::new(Self {
            layout,
            pool,
            heard,
            looked: Mutex::new(Clock::Boot.now()),
            batch: BatchSize::new(BATCH),
            waiting: Mutex::default(),
            entered: Notify::new(),
        })
    }

    /// Enters a waiter for `key`. The line lets one waiter a key through, so there is one entry.
    pub(crate) fn watch(self: &Arc<Self>, key: Vec<u8>, mode: Mode) -> Watcher {
        let changed = Arc::new(Notify::new());
        let waiter = Waiter {
            mode,
            changed: Arc::clone(&changed),
        };
        let mut waiting = self.lock();
        waiting.keys.insert(key.clone(), waiter);
        if !std::mem::replace(&mut waiting.is_polled, true) {
            self.pool
                .driven
                .runtime
                .spawn(Polling(Arc::clone(self)).run());
        }
        drop(waiting);
        self.entered.notify_one();
        Watcher {
            poller: Arc::clone(self),
            key,
            changed,
        }
    }

    /// Has the waiter for `key` look again.
    pub(crate) fn wake(&self, key: &[u8]) {
        if let Some(waiter) = self.lock().keys.get(key) {
            waiter.changed.notify_one();
        }
    }

    /// Looks at all keys and wakes those whose time has come; how long the others have to wait at most.
    async fn look(&self) -> Result<Option<Duration>> {
        let waiting: Vec<(Vec<u8>, Waiter)> = {
            let waiting = self.lock();
            let entries = waiting.keys.iter();
            entries
                .map(|(key, waiter)| (key.clone(), waiter.clone()))
                .collect()
        };
        let (mut soonest, mut rest) = (None, waiting.as_slice());
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.batch.get().min(rest.len()));
            let keys = batch.iter().map(|(key, _)| key.as_slice());
            let sent = Clock::Boot.now();
            let answer = match self.pool.ask(self.layout.look(keys), LOOK_LIMIT).await {
                Ok(answer) => answer,
                Err(Failure::TooLarge(_)) if self.batch.halve(batch.len()) => continue,
                Err(failure) => return Err(failure.into_error()),
            };
            self.heard.note(sent);
            let mut held = HashMap::new();
            for row in answer.rows() {
                held.insert(row.value::<Vec<u8>>(0)?, KeyState::read(&row)?);
            }
            for (key, waiter) in batch {
                let state = held.get(key);
                match state.and_then(|state| state.left_for(waiter.mode)) {
                    Some(left) => soonest = Some(soonest.map_or(left, |soonest| left.min(soonest))),
                    None => waiter.changed.notify_one(),
                }
            }
            rest = later;
        }
        *self.lock_looked() = Clock::Boot.now();
        Ok(soonest)
    }

    /// Whether it has looked at all keys a moment ago.
    fn is_trusted(&self) -> bool {
        Clock::Boot.now().since(*self.lock_looked()) < TRUST * 2
    }

    fn lock_looked(&self) -> MutexGuard<'_, Moment> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the table says of a key.
struct KeyState {
    mode: String,
    left: Duration,
    permits: u64,
}

impl KeyState {
    fn read(row: &Fields<'_>) -> Result<Self> {
        let left: i64 = row.value(2)?;
        Ok(Self {
            mode: row.value(1)?,
            left: Duration::from_micros(u64::try_from(left).unwrap_or(0)),
            permits: u64::try_from(row.value::<i64>(3)?).unwrap_or(0),
        })
    }

    /// How long someone who wants it in `mode` has to wait at most; `None` when it can be had.
    fn left_for(&self, mode: Mode) -> Option<Duration> {
        let room = match mode {
            Mode::Exclusive => false,
            Mode::Shared => self.mode == "s",
            Mode::Permit { of } => self.mode == "p" && self.permits < u64::from(of.get()),
        };
        (!room && !self.left.is_zero()).then_some(self.left)
    }
}

/// The task; its end, whatever the cause, lets the next waiter start another one.
struct Polling(Arc<Poller>);

impl Polling {
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
            let soonest = looked.unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot look at the keys that are waited for");
                None
            });
            let next = soonest.map_or(pause, |left| pause.min(left)).max(took);
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
        let mut waiting = self.0.lock();
        waiting.is_polled = !waiting.keys.is_empty();
        !waiting.is_polled
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.0.lock().is_polled = false;
    }
}

/// A waiter's entry; dropping it takes it out.
pub(crate) struct Watcher {
    poller: Arc<Poller>,
    key: Vec<u8>,
    changed: Arc<Notify>,
}

impl Watcher {
    /// Waits until the key may be free, or nobody has looked at it for a while. What happened since the
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

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut waiting = self.poller.lock();
        let is_ours = |waiter: &Waiter| Arc::ptr_eq(&waiter.changed, &self.changed);
        if waiting.keys.get(&self.key).is_some_and(is_ours) {
            waiting.keys.remove(&self.key);
        }
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller")
            .field("keys", &self.lock().keys.len())
            .finish_non_exhaustive()
    }
}
