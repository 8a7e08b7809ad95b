//! The place of one waiter: what it is given, and whether it is polled.

use std::mem::replace;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::queue::{Waits, Wants};
use super::shared::SharedGrant;
use crate::backend::followers::{Followers, QueuedBehind};
use crate::backend::{Clock, Moment};
use crate::mutex::Mutex;
use crate::waiter::watchdog::{self, Polling, Progress, Watchdog, Watched};
use crate::{Error, LockGuard, LockKey, LockRequest, Result, Wait};

/// A claim under way on the store.
pub(super) type ClaimFuture = Pin<Box<dyn Future<Output = Result<Option<LockGuard>>> + Send>>;

/// The meeting place of a waiter and of the task that gives it something.
pub(crate) struct Slot {
    queues: Arc<dyn SlotQueues>,
    pub(super) key: LockKey,
    pub(super) wants: Wants,
    max_hold: Option<Duration>,
    pub(super) wait: Wait,
    /// When the waiter came first, whatever has lapsed since.
    pub(super) arrived: Moment,
    pub(super) runtime: Option<Handle>,
    state: Mutex<SlotState>,
    /// The waiter's claim while it is the driver. Locked for the length of a poll.
    pub(super) claim: Mutex<Option<ClaimFuture>>,
    polling: Polling,
    /// True if others wait behind this one.
    pub(super) is_followed: AtomicBool,
    /// The number of times that this waiter's claim has lapsed.
    pub(super) lapses: AtomicU32,
}

/// The queues of a slot, as far as it knows them.
pub(super) trait SlotQueues: Send + Sync {
    /// Returns what sees to it that waiters are polled.
    fn watchdog(&self) -> &Watchdog;

    /// Tells the log if the waiters of `key` wait for too long; `false` when there are none.
    fn note_wait(&self, key: &LockKey) -> bool;

    /// Gives the claim of `driver` up, which is not polled, and lets the next waiter drive.
    fn driver_lapsed(&self, driver: &Slot);

    /// Looks after a lapse whether others behind are polled, once in a while: where no runtime is
    /// driven, its waiters would come to their turn and lapse one after the other.
    fn look_for_others(&self, lapsed: &Slot);

    /// Tells those that wait behind `driver` without an end of the `error` that it met, if they
    /// have waited for as long as waits outlast an outage since the store was `heard`.
    fn fail_outlasted(&self, driver: &Slot, error: &Error, heard: Moment);
}

/// The possession of a waiter.
pub(super) enum SlotState {
    Waits,
    /// The right to claim the key on the store, not before a moment if one is given.
    Drives(Option<Instant>),
    Given(LockGuard),
    /// A part of what another waiter has claimed.
    Shares(Arc<SharedGrant>),
    Failed(Error),
    /// Its possession went to others because it was not polled.
    Lapsed,
    /// The waiter was dropped.
    Gone,
}

impl Slot {
    pub(super) fn new(
        queues: Arc<dyn SlotQueues>,
        request: &LockRequest,
        arrived: Moment,
        lapses: u32,
    ) -> Self {
        Self {
            queues,
            key: request.key.clone(),
            wants: Wants::of(request),
            max_hold: request.max_hold,
            wait: request.wait(),
            arrived,
            runtime: Handle::try_current().ok(),
            state: Mutex::new(SlotState::Waits),
            claim: Mutex::default(),
            polling: Polling::default(),
            is_followed: AtomicBool::new(false),
            lapses: AtomicU32::new(lapses),
        }
    }

    /// Returns how long its guard may be held.
    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    pub(super) fn runtime_id(&self) -> Option<Id> {
        self.runtime.as_ref().map(Handle::id)
    }

    /// Notes a poll by the owner of `waker`.
    pub(super) fn polled(&self, waker: &Waker) {
        self.polling.polled(waker);
    }

    /// Wakes the waiter and has the watchdog see to it that it is polled.
    pub(super) fn notify(self: &Arc<Self>) {
        if let Some(seen) = self.polling.is_to_be_woken() {
            let watchdog = self.queues.watchdog();
            watchdog.watch(self, seen, self.runtime.as_ref());
        }
        self.polling.wake();
    }

    /// Wakes the waiter, which holds no other up by itself.
    pub(super) fn notify_unwatched(&self) {
        self.polling.wake();
    }

    /// Polls the claim of the driver, which `begin` makes if there is none.
    pub(super) fn poll_claim(
        self: &Arc<Self>,
        begin: impl FnOnce() -> ClaimFuture,
    ) -> Poll<Result<Option<LockGuard>>> {
        let waker = Waker::from(Arc::clone(self));
        let mut claim = self.claim.lock();
        let is_new = claim.is_none();
        let under_way = claim.get_or_insert_with(begin);
        let outcome = under_way.as_mut().poll(&mut Context::from_waker(&waker));
        let done = outcome.is_ready().then(|| claim.take());
        drop(claim);
        drop(done);
        if is_new && outcome.is_pending() {
            let watchdog = self.queues.watchdog();
            watchdog.probe(self, self.runtime.as_ref());
        }
        outcome
    }

    /// Takes the claim out, to be dropped.
    pub(super) fn take_claim(&self) -> Option<ClaimFuture> {
        self.claim.lock().take()
    }

    /// Sets the state of a waiter that has not gone; returns what was to be set if it has.
    pub(super) fn set(&self, new: SlotState) -> Option<SlotState> {
        let mut state = self.state.lock();
        if matches!(
            *state,
            SlotState::Gone | SlotState::Failed(_) | SlotState::Lapsed
        ) {
            return Some(new);
        }
        let old = replace(&mut *state, new);
        drop(state);
        drop(old);
        None
    }

    /// Tells a waiter that only waits of an error. It counts as gone in its queue.
    pub(super) fn fail(&self, error: Error) -> bool {
        let mut state = self.state.lock();
        let waits = matches!(*state, SlotState::Waits);
        if waits {
            *state = SlotState::Failed(error);
        }
        waits
    }

    /// Returns the waiters behind this one, which it tells of each outage that it outlasts.
    pub(super) fn followers(slot: &Arc<Self>) -> Followers {
        let weak: Weak<Self> = Arc::downgrade(slot);
        Followers(weak)
    }

    pub(super) fn is_driving(&self) -> bool {
        matches!(*self.state.lock(), SlotState::Drives(_))
    }

    pub(super) fn lapses(&self) -> u32 {
        self.lapses.load(Ordering::Relaxed)
    }

    /// Returns what the waiter has; what can be had once is taken out.
    pub(super) fn look(&self) -> SlotState {
        let mut state = self.state.lock();
        match &*state {
            SlotState::Waits => SlotState::Waits,
            SlotState::Drives(rests_until) => SlotState::Drives(*rests_until),
            _ => replace(&mut *state, SlotState::Waits),
        }
    }

    /// Takes the place away for good.
    pub(super) fn leave(&self) -> SlotState {
        replace(&mut self.state.lock(), SlotState::Gone)
    }

    /// Gives the waiter the held key; returns it when the waiter has gone.
    pub(crate) fn give(self: &Arc<Self>, guard: LockGuard) -> Option<LockGuard> {
        match self.set(SlotState::Given(guard)) {
            None => {
                self.notify();
                None
            }
            Some(SlotState::Given(guard)) => Some(guard),
            Some(_) => None,
        }
    }
}

impl QueuedBehind for Slot {
    fn cut_off(&self, error: &Error, heard: Moment) {
        self.queues.fail_outlasted(self, error, heard);
    }
}

impl Waits for Arc<Slot> {
    fn wants(&self) -> Wants {
        self.wants
    }

    fn has_gone(&self) -> bool {
        matches!(
            *self.state.lock(),
            SlotState::Gone | SlotState::Failed(_) | SlotState::Lapsed
        )
    }
}

/// The waker of its claim.
impl Wake for Slot {
    fn wake(self: Arc<Self>) {
        self.notify();
    }
}

impl Watched for Slot {
    fn progress(&self, seen: u64) -> Progress {
        self.polling.progress(seen)
    }

    fn limit(&self) -> Duration {
        let ttl = self.wants.ttl;
        if !self.is_driving() {
            return watchdog::limit(ttl);
        }
        let alone = watchdog::limit_alone(ttl, self.lapses());
        if self.is_followed.load(Ordering::Relaxed) {
            // Those behind may be polled as rarely, and then none would ever get anything.
            alone.min(Duration::from_secs(1))
        } else {
            alone
        }
    }

    fn lapse(&self, seen: u64) {
        if !matches!(self.polling.progress(seen), Progress::None) {
            return;
        }
        let mut state = self.state.lock();
        if matches!(
            *state,
            SlotState::Shares(_) | SlotState::Failed(_) | SlotState::Gone
        ) {
            return;
        }
        let old = replace(&mut *state, SlotState::Lapsed);
        drop(state);
        tracing::debug!(key = %self.key, "a waiter was woken and is not polled: others go first");
        self.lapses.fetch_add(1, Ordering::Relaxed);
        match old {
            SlotState::Drives(_) => self.queues.driver_lapsed(self),
            // A guard is handed on, or released.
            other => drop(other),
        }
        // A poll may have come in between, and nothing else would wake its task again.
        self.polling.wake();
        self.queues.look_for_others(self);
    }

    fn is_under_way(&self) -> bool {
        self.is_driving()
    }

    fn probe(self: Arc<Self>) {
        // The only waiter of its process has no other that would tell of it.
        self.queues.note_wait(&self.key);
        self.notify();
    }
}

/// When a waiter that comes now has arrived.
pub(super) fn now() -> Moment {
    Clock::Boot.now()
}
