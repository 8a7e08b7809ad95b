//! Detects waiters that were woken but not polled, so that they do not block other waiters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::backend::{Attendance, KeeperRuntime, OnDemand};
use crate::mutex::Mutex;

/// Maximum time that a woken waiter may stay unpolled.
const UNPOLLED_MAX: Duration = Duration::from_millis(100);

/// Number of limits after which an unfinished waiter is woken as a probe. The store's answer does
/// not wake a waiter whose runtime is not driven.
const PROBE: u32 = 5;

/// Minimum number of entries before settled ones are removed.
const PRUNE_MIN: usize = 64;

/// A waiter that the watchdog monitors.
pub(crate) trait Watched: Send + Sync + 'static {
    /// Returns the waiter's progress since `seen`.
    fn progress(&self, seen: u64) -> Progress;

    /// Returns the maximum time without progress.
    fn limit(&self) -> Duration;

    /// Gives up the hold or claim by which this waiter blocks others. Called once, from the
    /// watchdog's task.
    fn lapse(&self, seen: u64);

    /// Returns true if the waiter may block others although it was not woken.
    fn is_under_way(&self) -> bool {
        false
    }

    /// Wakes the waiter, to check that it is polled.
    fn probe(self: Arc<Self>) {}
}

/// The progress of a watched waiter.
pub(crate) enum Progress {
    /// The waiter needs no more monitoring.
    Settled,
    /// The waiter has progressed; monitor it from this count on.
    Since(u64),
    None,
}

/// Returns the limit of a waiter with `ttl`: 100 ms, or a tenth of the ttl if that is less.
pub(crate) fn limit(ttl: Duration) -> Duration {
    UNPOLLED_MAX.min(ttl / 10)
}

/// Returns the limit of a waiter that blocks no other waiter of its process.
///
/// The limit doubles with each lapse, up to a third of the ttl, after which a grant would be
/// useless. With a constant limit, a rarely polled waiter would never get the lock.
pub(crate) fn limit_alone(ttl: Duration, lapses: u32) -> Duration {
    let limit = limit(ttl);
    let longer = limit.saturating_mul(1 << lapses.min(16));
    longer.min((ttl / 3).max(limit))
}

/// The waker of a waiter, and whether it was polled since the last wake.
#[derive(Default)]
pub(crate) struct Polling {
    waker: Mutex<Option<Waker>>,
    /// Number of wakes and polls, counted alternately; odd between a wake and the next poll.
    turns: AtomicU64,
}

impl Polling {
    /// Records a poll of the task of `waker`.
    pub(crate) fn polled(&self, waker: &Waker) {
        // Store the waker first: a wake in between then finds it and has the task polled again.
        *self.waker.lock() = Some(waker.clone());
        let turns = self.turns.load(Ordering::SeqCst);
        if !turns.is_multiple_of(2) {
            self.turns.store(turns + 1, Ordering::SeqCst);
        }
    }

    /// Records an imminent wake; returns the count to monitor from, unless the waiter is monitored.
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

    /// Returns the waiter's progress since the count `seen`.
    pub(crate) fn progress(&self, seen: u64) -> Progress {
        if self.turns.load(Ordering::SeqCst) == seen {
            Progress::None
        } else {
            Progress::Settled
        }
    }
}

/// Monitors the waiters of one client with a single sleeping task.
///
/// The task counts the time that it slept on its own runtime, so nothing lapses because the whole
/// machine was suspended. It runs only while waiters are monitored, so that idle clients have no
/// timer.
#[derive(Clone)]
pub(crate) struct Watchdog {
    keeper_runtime: KeeperRuntime,
    rounds: Arc<WatchedWaiters>,
}

#[derive(Default)]
struct WatchedWaiters {
    state: Mutex<WatchList>,
    attended: OnDemand,
    /// Wakes the task when an entry is due before its planned round.
    sooner: Notify,
}

#[derive(Default)]
struct WatchList {
    entries: Vec<WatchEntry>,
    prune_at: usize,
    /// Duration of the task's present sleep.
    sleeps_for: Duration,
}

struct WatchEntry {
    /// Weak, because the waiter owns its client, which owns this watchdog.
    watched: Weak<dyn Watched>,
    /// The count from which the waiter is monitored; `None` for one that is probed periodically.
    seen: Option<u64>,
    /// Time without progress so far; `None` before the first whole sleep.
    unpolled: Option<Duration>,
}

impl Watchdog {
    pub(crate) fn new(keeper_runtime: KeeperRuntime) -> Self {
        Self {
            keeper_runtime,
            rounds: Arc::default(),
        }
    }

    /// Monitors `watched` from the count `seen` on.
    ///
    /// With the keeper on the caller's runtime, the task runs on `runtime`, the waiter's.
    pub(crate) fn watch<W: Watched>(&self, watched: &Arc<W>, seen: u64, runtime: Option<&Handle>) {
        self.enter(watched, Some(seen), runtime);
    }

    /// Probes `watched` periodically while its acquisition is unfinished.
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
        if let Some(attendance) = attendance {
            let looking = sleep_and_look(Arc::clone(&self.rounds), attendance);
            self.runtime(runtime).map(|runtime| runtime.spawn(looking));
        } else if is_sooner {
            self.rounds.sooner.notify_one();
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

/// Returns the sleep that one entry needs.
fn pause(seen: Option<u64>, limit: Duration) -> Duration {
    match seen {
        Some(_) => limit / 2,
        None => limit * PROBE,
    }
}

impl WatchEntry {
    /// Records the waiter's progress; returns the waiter unless it is gone or settled.
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

    /// Returns true if the entry is due after a sleep of `slept`. An entry that is probed stays.
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
    /// Removes settled entries once their number has doubled, so that entries stay proportional to
    /// waiters.
    fn prune(&mut self) -> Vec<Arc<dyn Watched>> {
        if self.entries.len() < self.prune_at.max(PRUNE_MIN) {
            return Vec::new();
        }
        // The caller drops these after it unlocked the state: dropping the last reference drops a
        // claim.
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
    /// Returns the sleep until the next round; `None` ends the task.
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

    /// Checks every entry after a sleep of `slept`: lapses stuck waiters and wakes those to probe.
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

/// The watchdog's task: monitors entries until none is left.
async fn sleep_and_look(rounds: Arc<WatchedWaiters>, _attendance: Attendance) {
    while let Some(pause) = rounds.plan() {
        // Both branches are cancel safe: an unconsumed notification stays for the next iteration.
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => rounds.look(pause),
            () = rounds.sooner.notified() => {}
        }
    }
}
