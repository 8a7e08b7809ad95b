//! One shared grant for all readers that waited for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::mutex::Mutex;
use crate::waiter::watchdog::{self, Progress, Watchdog, Watched};
use crate::{FencingToken, LockGuard};

/// A shared grant, from which each waiting reader takes a guard when it is polled.
///
/// The hold lasts until all readers have taken their guard or left, and as long as guards exist.
pub(super) struct SharedGrant {
    state: Mutex<ShareState>,
    /// Number of readers that took their guard or left, for the watchdog.
    steps: AtomicU64,
    ttl: Duration,
}

struct ShareState {
    /// `None` once no more guards may be taken.
    hold: Option<Arc<LockGuard>>,
    token: FencingToken,
    /// Number of readers that have neither taken their guard nor left.
    expected: usize,
}

impl SharedGrant {
    /// Shares the hold of `guard` with `expected` readers; returns the driver's guard, too.
    pub(super) fn new(
        guard: LockGuard,
        max_hold: Option<Duration>,
        expected: usize,
    ) -> (Arc<Self>, LockGuard) {
        let (token, ttl) = (guard.token(), guard.hold().id.ttl());
        let hold = Arc::new(guard);
        let first = LockGuard::part_of(&hold, token, max_hold);
        let state = ShareState {
            hold: Some(hold),
            token,
            expected,
        };
        let grant = Self {
            state: Mutex::new(state),
            steps: AtomicU64::new(0),
            ttl,
        };
        (Arc::new(grant), first)
    }

    /// Returns the guard of one reader; `None` if the reader is too late or the hold was lost.
    pub(super) fn guard(&self, max_hold: Option<Duration>) -> Option<LockGuard> {
        let mut state = self.state.lock();
        let hold = Arc::clone(state.hold.as_ref()?);
        let token = state.token.next_hand_off()?;
        state.token = token;
        let done = state.count_down();
        drop(state);
        self.steps.fetch_add(1, Ordering::SeqCst);
        let guard = LockGuard::part_of(&hold, token, max_hold);
        drop(done);
        guard.is_held().then_some(guard)
    }

    /// Records that one reader has left.
    pub(super) fn leave(&self) {
        let done = self.state.lock().count_down();
        self.steps.fetch_add(1, Ordering::SeqCst);
        drop(done);
    }

    /// Registers with the watchdog, so that readers that are not polled do not keep the hold.
    pub(super) fn watch(self: &Arc<Self>, watchdog: &Watchdog, runtime: Option<&Handle>) {
        let seen = self.steps.load(Ordering::SeqCst);
        watchdog.watch(self, seen, runtime);
    }
}

impl ShareState {
    /// Counts a reader down. After the last one, returns the hold, which then only guards keep.
    fn count_down(&mut self) -> Option<Arc<LockGuard>> {
        self.expected = self.expected.saturating_sub(1);
        if self.expected == 0 {
            self.hold.take()
        } else {
            None
        }
    }
}

impl Watched for SharedGrant {
    fn progress(&self, seen: u64) -> Progress {
        let steps = self.steps.load(Ordering::SeqCst);
        if self.state.lock().hold.is_none() {
            Progress::Settled
        } else if steps == seen {
            Progress::None
        } else {
            // Readers that were woken together take a while, so any step restarts the limit.
            Progress::Since(steps)
        }
    }

    fn limit(&self) -> Duration {
        watchdog::limit(self.ttl)
    }

    fn lapse(&self, _seen: u64) {
        let unpolled = self.state.lock().hold.take();
        drop(unpolled);
    }
}
