//! The slot of one waiter: what the waiter was given, and whether it is polled.

use std::mem::replace;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::queue::{Waits, Wants};
use super::shared_grant::SharedGrant;
use crate::backend::followers::{Followers, QueuedBehind};
use crate::backend::{Clock, Moment};
use crate::mutex::Mutex;
use crate::waiter::watchdog::{self, Polling, Progress, Watchdog, Watched};
use crate::{Error, LockGuard, LockKey, LockRequest, Result, Wait};

/// A pending claim on the store.
pub(super) type ClaimFuture = Pin<Box<dyn Future<Output = Result<Option<LockGuard>>> + Send>>;

/// The slot through which other tasks give a waiter its turn, a guard or an error.
pub(crate) struct Slot {
    queues: Arc<dyn SlotQueues>,
    pub(super) key: LockKey,
    pub(super) wants: Wants,
    max_hold: Option<Duration>,
    pub(super) wait: Wait,
    /// The waiter's first arrival, before any lapse.
    pub(super) arrived: Moment,
    pub(super) runtime: Option<Handle>,
    state: Mutex<SlotState>,
    /// The driver's claim. Locked during each poll.
    pub(super) claim: Mutex<Option<ClaimFuture>>,
    polling: Polling,
    /// True if other waiters are queued behind this one.
    pub(super) is_followed: AtomicBool,
    /// Number of times that this waiter's claim has lapsed.
    pub(super) lapses: AtomicU32,
}

/// The queues of a slot.
pub(super) trait SlotQueues: Send + Sync {
    /// Returns the watchdog that detects waiters that are not polled.
    fn watchdog(&self) -> &Watchdog;

    /// Logs waiters of `key` that wait too long; false if there are none.
    fn note_wait(&self, key: &LockKey) -> bool;

    /// Gives up the claim of a `driver` that is not polled, and makes the next waiter the driver.
    fn driver_lapsed(&self, driver: &Slot);

    /// Wakes waiters of the same runtime now and then after a lapse. If that runtime is not driven,
    /// they lapse together rather than one after the other, each in its turn.
    fn look_for_others(&self, lapsed: &Slot);

    /// Fails waiters behind `driver` that have outlasted an outage, with the driver's `error`.
    ///
    /// These are the waiters without a limit for which the store has been silent, since
    /// `last_reply`, for longer than the outage limit.
    fn fail_outlasted(&self, driver: &Slot, error: &Error, last_reply: Moment);
}

/// The content of a waiter's slot.
pub(super) enum SlotState {
    Waits,
    /// The right to claim the key on the store, from a given moment on if there is one.
    Drives(Option<Instant>),
    Given(LockGuard),
    /// A share of another waiter's grant.
    Shares(Arc<SharedGrant>),
    Failed(Error),
    /// The watchdog took the content away because the waiter was not polled.
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

    /// Returns the maximum time of the waiter's hold.
    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    pub(super) fn runtime_id(&self) -> Option<Id> {
        self.runtime.as_ref().map(Handle::id)
    }

    /// Records a poll of the task of `waker`.
    pub(super) fn polled(&self, waker: &Waker) {
        self.polling.polled(waker);
    }

    /// Wakes the waiter, monitored by the watchdog.
    pub(super) fn notify(self: &Arc<Self>) {
        if let Some(seen) = self.polling.is_to_be_woken() {
            let watchdog = self.queues.watchdog();
            watchdog.watch(self, seen, self.runtime.as_ref());
        }
        self.polling.wake();
    }

    /// Wakes the waiter without the watchdog, because the waiter does not block others.
    pub(super) fn notify_unwatched(&self) {
        self.polling.wake();
    }

    /// Polls the driver's claim, which `begin` creates if there is none.
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

    /// Takes the claim out, so that the caller drops it.
    pub(super) fn take_claim(&self) -> Option<ClaimFuture> {
        self.claim.lock().take()
    }

    /// Sets the slot's content; returns `new` if the waiter is gone, failed or lapsed.
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

    /// Fails a waiter that has nothing yet. The queue then treats it as gone.
    pub(super) fn fail(&self, error: Error) -> bool {
        let mut state = self.state.lock();
        let waits = matches!(*state, SlotState::Waits);
        if waits {
            *state = SlotState::Failed(error);
        }
        waits
    }

    /// Returns a reference to the waiters behind this one, for reports of outages.
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

    /// Returns the slot's content, and takes out whatever can be used only once.
    pub(super) fn look(&self) -> SlotState {
        let mut state = self.state.lock();
        match &*state {
            SlotState::Waits => SlotState::Waits,
            SlotState::Drives(rests_until) => SlotState::Drives(*rests_until),
            _ => replace(&mut *state, SlotState::Waits),
        }
    }

    /// Marks the waiter as gone; returns the slot's content.
    pub(super) fn leave(&self) -> SlotState {
        replace(&mut self.state.lock(), SlotState::Gone)
    }

    /// Gives the waiter the guard of a hold; returns the guard if the waiter is gone.
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
    fn record_outage(&self, error: &Error, last_reply: Moment) {
        self.queues.fail_outlasted(self, error, last_reply);
    }
}

impl Waits for Arc<Slot> {
    fn wants(&self) -> &Wants {
        &self.wants
    }

    fn has_gone(&self) -> bool {
        matches!(
            *self.state.lock(),
            SlotState::Gone | SlotState::Failed(_) | SlotState::Lapsed
        )
    }
}

/// The waker of the driver's claim.
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
            // Waiters behind may be polled as rarely; with long limits none would ever get the
            // lock.
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
        tracing::debug!(key = %self.key, "the future of a woken waiter is not polled, waking the next waiter");
        self.lapses.fetch_add(1, Ordering::Relaxed);
        match old {
            SlotState::Drives(_) => self.queues.driver_lapsed(self),
            // The drop hands a guard on or releases it.
            other => drop(other),
        }
        // The waiter may have been polled meanwhile; no other event would wake its task again.
        self.polling.wake();
        self.queues.look_for_others(self);
    }

    fn is_under_way(&self) -> bool {
        self.is_driving()
    }

    fn probe(self: Arc<Self>) {
        // Only waiters behind a driver start the periodic check, so a lone driver logs here.
        self.queues.note_wait(&self.key);
        self.notify();
    }
}

/// Returns the arrival time of a waiter that arrives now.
pub(super) fn now() -> Moment {
    Clock::Boot.now()
}
