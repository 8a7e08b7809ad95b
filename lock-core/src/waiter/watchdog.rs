//! Notices waiters that were woken and are not polled, so that they hold no other waiter up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::backend::{Attendance, KeeperRuntime, OnDemand};
use crate::mutex::Mutex;

/// The time that a waiter that was woken may stay without a poll, at most.
const UNPOLLED_MAX: Duration = Duration::from_millis(100);

/// After how many limits a waiter whose claim is under way is woken, to see whether it is polled:
/// one whose runtime is not driven is not even woken by the store's answer.
const PROBE: u32 = 5;

/// The number of entries that are kept before those that need no watching any more are looked for.
const PRUNE_MIN: usize = 64;

/// A waiter that the watchdog looks after.
pub(crate) trait Watched: Send + Sync + 'static {
    /// Says what has happened since the progress was `seen`.
    fn progress(&self, seen: u64) -> Progress;

    /// For how long there may be no progress.
    fn limit(&self) -> Duration;

    /// Ends what it holds others up with. Called once, and from the watchdog's task.
    fn lapse(&self, seen: u64);

    /// Returns true if it holds anything up although it was not woken.
    fn is_under_way(&self) -> bool {
        false
    }

    /// Wakes it, to see whether it is polled.
    fn probe(self: Arc<Self>) {}
}

/// The progress of a watched waiter.
pub(crate) enum Progress {
    /// It need not be watched any more.
    Settled,
    /// It has gone on, and is to be watched from here.
    Since(u64),
    None,
}

/// The limit of a waiter that asks for `ttl`: 100 ms, or a tenth of the ttl if that is less.
pub(crate) fn limit(ttl: Duration) -> Duration {
    UNPOLLED_MAX.min(ttl / 10)
}

/// The limit of a waiter that keeps no other of its process waiting. One that is polled rarely
/// would never get anything: it has more time after each lapse, until a grant would be of no use
/// any more.
pub(crate) fn limit_alone(ttl: Duration, lapses: u32) -> Duration {
    let limit = limit(ttl);
    let longer = limit.saturating_mul(1 << lapses.min(16));
    longer.min((ttl / 3).max(limit))
}

/// The waker of a waiter, and whether the waiter was polled since it was woken.
#[derive(Default)]
pub(crate) struct Polling {
    waker: Mutex<Option<Waker>>,
    /// Counts wakes and polls in turns; odd while the waiter was woken and has not been polled
    /// since.
    turns: AtomicU64,
}

impl Polling {
    /// Notes a poll by the owner of `waker`.
    pub(crate) fn polled(&self, waker: &Waker) {
        // The waker first: a wake in between finds it, and has the waiter polled again.
        *self.waker.lock() = Some(waker.clone());
        let turns = self.turns.load(Ordering::SeqCst);
        if !turns.is_multiple_of(2) {
            self.turns.store(turns + 1, Ordering::SeqCst);
        }
    }

    /// Notes that the waiter is about to be woken; returns what to watch from, unless it is
    /// watched.
    pub(crate) fn is_to_be_woken(&self) -> Option<u64> {
        let before = self.turns.fetch_or(1, Ordering::SeqCst);
        before.is_multiple_of(2).then_some(before + 1)
    }

    /// Wakes the waiter.
    pub(crate) fn wake(&self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Says whether the waiter was polled since it was `seen`.
    pub(crate) fn progress(&self, seen: u64) -> Progress {
        if self.turns.load(Ordering::SeqCst) == seen {
            Progress::None
        } else {
            Progress::Settled
        }
    }
}

/// Watches the waiters of one client, with one sleeper for all of them.
///
/// Its time is that of its own runtime, and it counts what it has slept: where the whole machine
/// stood still, nothing lapses for that. The sleeper stays while there is something to watch and is
/// gone in between, so that waiting costs no timer.
#[derive(Clone)]
pub(crate) struct Watchdog {
    keeper_runtime: KeeperRuntime,
    rounds: Arc<WatchedWaiters>,
}

#[derive(Default)]
struct WatchedWaiters {
    state: Mutex<WatchList>,
    attended: OnDemand,
    /// Something has to be looked at sooner than planned.
    sooner: Notify,
}

#[derive(Default)]
struct WatchList {
    entries: Vec<WatchEntry>,
    prune_at: usize,
    /// For how long the sleeper sleeps before its next round.
    sleeps_for: Duration,
}

struct WatchEntry {
    /// Not kept: a waiter knows its client, whose watchdog this is.
    watched: Weak<dyn Watched>,
    /// The progress from which it is watched; `None` to wake it now and then, while it is under
    /// way.
    seen: Option<u64>,
    /// For how long it was watched without progress; `None` before the first whole sleep.
    unpolled: Option<Duration>,
}

impl Watchdog {
    pub(crate) fn new(keeper_runtime: KeeperRuntime) -> Self {
        Self {
            keeper_runtime,
            rounds: Arc::default(),
        }
    }

    /// Watches `watched` from the progress `seen` on. on the caller's runtime the sleeper runs on
    /// `runtime`, that of the waiter.
    pub(crate) fn watch<W: Watched>(&self, watched: &Arc<W>, seen: u64, runtime: Option<&Handle>) {
        self.enter(watched, Some(seen), runtime);
    }

    /// Wakes `watched` now and then as long as it is under way, and watches whether it is polled
    /// then.
    pub(crate) fn probe<W: Watched>(&self, watched: &Arc<W>, runtime: Option<&Handle>) {
        self.enter(watched, None, runtime);
    }

    fn enter<W: Watched>(&self, watched: &Arc<W>, seen: Option<u64>, runtime: Option<&Handle>) {
        let pause = pause(seen, watched.limit());
        let watched: Weak<W> = Arc::downgrade(watched);
        let mut state = self.rounds.state.lock();
        let gone = state.prune();
        state.entries.push(WatchEntry {
            watched,
            seen,
            unpolled: None,
        });
        let attendance = self.rounds.attended.begin();
        let is_sooner = state.sleeps_for > pause;
        if attendance.is_some() {
            state.sleeps_for = Duration::ZERO;
        }
        drop(state);
        match (attendance, self.runtime(runtime)) {
            (Some(attendance), Some(keeper_runtime)) => {
                let looking = sleep_and_look(Arc::clone(&self.rounds), attendance);
                keeper_runtime.spawn(looking);
            }
            (None, _) if is_sooner => self.rounds.sooner.notify_one(),
            (Some(_) | None, _) => {}
        }
        drop(gone);
    }

    fn runtime(&self, caller: Option<&Handle>) -> Option<Handle> {
        if self.keeper_runtime.outlives_callers() {
            return self.keeper_runtime.handle().ok();
        }
        caller.cloned()
    }
}

/// Returns how long to sleep for one entry.
fn pause(seen: Option<u64>, limit: Duration) -> Duration {
    match seen {
        Some(_) => limit / 2,
        None => limit * PROBE,
    }
}

impl WatchEntry {
    /// Returns what is watched, unless it is gone or has been polled. Notes its progress.
    fn unsettled(&mut self) -> Option<Arc<dyn Watched>> {
        let watched = self.watched.upgrade()?;
        let Some(seen) = self.seen else {
            return watched.is_under_way().then_some(watched);
        };
        match watched.progress(seen) {
            Progress::Settled => return None,
            Progress::Since(seen) => {
                self.seen = Some(seen);
                self.unpolled = None;
            }
            Progress::None => {}
        }
        Some(watched)
    }

    /// Returns true if its time has come, after a sleep of `slept`. What is only woken now and then
    /// goes on.
    fn is_over(&mut self, slept: Duration, limit: Duration) -> bool {
        let Some(unpolled) = &mut self.unpolled else {
            return false;
        };
        *unpolled += slept;
        match self.seen {
            Some(_) => *unpolled >= limit,
            None if *unpolled >= limit * PROBE => {
                *unpolled = Duration::ZERO;
                true
            }
            None => false,
        }
    }
}

impl WatchList {
    /// Takes out what needs no watching any more, now and then, so that entries are as many as
    /// waiters.
    fn prune(&mut self) -> Vec<Arc<dyn Watched>> {
        if self.entries.len() < self.prune_at.max(PRUNE_MIN) {
            return Vec::new();
        }
        // Dropped when nothing is locked any more, since the last to know a waiter drops what it
        // has.
        let mut kept = Vec::new();
        self.entries.retain_mut(|entry| {
            let unsettled = entry.unsettled();
            let keep = unsettled.is_some();
            kept.extend(unsettled);
            keep
        });
        self.prune_at = self.entries.len() * 2;
        kept
    }
}

impl WatchedWaiters {
    /// Returns how long to sleep before the next round; `None` ends the sleeper.
    fn plan(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        state.entries.retain_mut(|entry| {
            entry.unpolled.get_or_insert_default();
            entry.watched.strong_count() > 0
        });
        let upgrade = |entry: &WatchEntry| Some((entry.seen, entry.watched.upgrade()?));
        let watched: Vec<_> = state.entries.iter().filter_map(upgrade).collect();
        let pauses = watched
            .iter()
            .map(|(seen, watched)| pause(*seen, watched.limit()));
        let pause = pauses.min();
        match pause {
            Some(pause) => state.sleeps_for = pause,
            None => self.attended.end(),
        }
        drop(state);
        pause
    }

    /// Looks at everything after a sleep of `slept`, and lets lapse what has not gone on for too
    /// long.
    fn look(&self, slept: Duration) {
        let mut looked_at = Vec::new();
        let mut state = self.state.lock();
        state.entries.retain_mut(|entry| {
            let Some(watched) = entry.unsettled() else {
                return false;
            };
            let is_over = entry.is_over(slept, watched.limit());
            looked_at.push((watched, is_over.then_some(entry.seen)));
            !is_over || entry.seen.is_none()
        });
        drop(state);
        for (watched, over) in looked_at {
            match over {
                Some(Some(seen)) => watched.lapse(seen),
                Some(None) => watched.probe(),
                None => {}
            }
        }
    }
}

/// The sleeper: looks at what is watched until there is nothing.
async fn sleep_and_look(rounds: Arc<WatchedWaiters>, _attendance: Attendance) {
    while let Some(pause) = rounds.plan() {
        // Both are cancel safe: a notification that is not consumed stays for the next turn.
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => rounds.look(pause),
            () = rounds.sooner.notified() => {}
        }
    }
}
