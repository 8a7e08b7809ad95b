//! The task that renews holds and declares their loss.

pub(crate) mod recheck;
pub(crate) mod registry;
pub(crate) mod releases;
pub(crate) mod runtime;
pub(crate) mod schedule;
pub(crate) mod shutdown;
pub(crate) mod shutdown_gate;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::JoinSet;

use crate::backend::claim::Claim;
use crate::hold::Hold;
use crate::hold::validity::renewal_due;
use crate::hold::validity::{Extended, Step};
use crate::keeper::registry::HoldRegistry;
use crate::keeper::releases::Releases;
use crate::keeper::schedule::{NextWakeUp, RenewalSchedule};
use crate::keeper::shutdown_gate::ShutdownGate;
use crate::mutex::Mutex;
use crate::waiter::slow_waits::SlowWaits;
use crate::waiter::watchdog::Watchdog;
use crate::{
    Capabilities, Clock, HoldId, KeeperRuntime, LeaseStore, LockRequest, Moment, Released, Renewal,
    Result,
};

/// The keeper of one client's holds: makes claims, renews what they win, declares what is lost.
///
/// It renews each hold at a third of its ttl, repeats a renewal with an unknown outcome until the
/// hold's deadline, and ends the hold at the deadline exactly, whatever a renewal may be doing.
/// There is one task and one timer for all holds of a client.
#[derive(Clone)]
pub struct Keeper(pub(crate) Arc<KeeperInner>);

pub(crate) struct KeeperInner {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Clock,
    pub(crate) keeper_runtime: KeeperRuntime,
    pub(crate) gate: Arc<ShutdownGate>,
    pub(crate) registry: HoldRegistry,
    /// When holds are renewed for the first time at the latest, counted from their grant.
    first_renewal: Option<Duration>,
    pub(crate) releases: Arc<Releases>,
    pub(crate) watchdog: Watchdog,
    pub(crate) slow_waits: SlowWaits,
    /// One timetable a runtime that holds are kept on: one with the keeper thread.
    schedules: Mutex<HashMap<Id, Weak<RenewalSchedule>>>,
}

impl Keeper {
    /// A keeper for a backend with I/O: it lives on `keeper_runtime`, and its deadlines are read on
    /// [`Clock::Boot`].
    pub fn new(
        capabilities: Capabilities,
        store: Arc<dyn LeaseStore>,
        keeper_runtime: KeeperRuntime,
    ) -> Self {
        Self::with_clock(capabilities, store, keeper_runtime, Clock::Boot)
    }

    /// A keeper for a backend inside this process: it lives on the acquiring runtime, and its
    /// deadlines are read on tokio's clock, so that paused time reaches them.
    pub fn in_process(capabilities: Capabilities, store: Arc<dyn LeaseStore>) -> Self {
        Self::with_clock(capabilities, store, KeeperRuntime::caller(), Clock::Runtime)
    }

    fn with_clock(
        capabilities: Capabilities,
        store: Arc<dyn LeaseStore>,
        keeper_runtime: KeeperRuntime,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(KeeperInner {
            store,
            capabilities,
            clock,
            watchdog: Watchdog::new(keeper_runtime.clone()),
            slow_waits: SlowWaits::default(),
            keeper_runtime,
            gate: Arc::default(),
            registry: HoldRegistry::default(),
            first_renewal: None,
            releases: Arc::default(),
            schedules: Mutex::default(),
        }))
    }

    /// Renews each hold for the first time `after` its grant, if that is before a third of its ttl: for stores that
    /// tell of a removal only what a renewal has read. Default: at a third of the ttl.
    ///
    /// # Panics
    ///
    /// When the keeper was cloned before.
    #[must_use]
    pub fn with_first_renewal(mut self, after: Duration) -> Self {
        let inner = Arc::get_mut(&mut self.0).expect("a keeper is set up before it is cloned");
        inner.first_renewal = Some(after);
        self
    }

    /// Returns what the backend declares.
    pub fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
    }

    /// The clock of its holds' deadlines.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// The watchdog of its waiters.
    pub(crate) fn watchdog(&self) -> Watchdog {
        self.0.watchdog.clone()
    }

    /// Starts an acquisition: checks the request and gives it an owner id of its own.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a mode or ttl that the backend cannot
    /// give, [`Config`](crate::ErrorKind::Config) outside a Tokio runtime,
    /// [`Closed`](crate::ErrorKind::Closed) after [`shutdown`](Self::shutdown).
    pub fn claim(&self, request: &LockRequest) -> Result<Claim> {
        self.0.gate.check()?;
        self.0.capabilities.check(request)?;
        let handle = self.0.keeper_runtime.handle()?;
        let runtime = KeeperRuntime::caller().handle()?.id();
        let id = HoldId::new(request, runtime)?;
        let schedule = self.0.schedule(&handle);
        let hold = Hold::new(id, Arc::clone(&self.0), schedule, handle);
        Ok(Claim::new(hold, request.max_hold))
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Debug for KeeperInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("backend", &self.capabilities.backend)
            .field("keeper_runtime", &self.keeper_runtime)
            .finish_non_exhaustive()
    }
}

impl KeeperInner {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let renewals = self.store.renew(holds).await;
        renewals.map_err(|error| error.with_operation("renew"))
    }

    pub(crate) async fn release(&self, hold: &HoldId) -> Result<Released> {
        let released = self.store.release(hold).await;
        released.map_err(|error| error.with_operation("release").with_key(hold.key()))
    }

    fn schedule(&self, handle: &Handle) -> Arc<RenewalSchedule> {
        let mut schedules = self.schedules.lock();
        if let Some(schedule) = schedules.get(&handle.id()).and_then(Weak::upgrade) {
            return schedule;
        }
        schedules.retain(|_, schedule| schedule.strong_count() > 0);
        let schedule = Arc::new(RenewalSchedule::default());
        schedules.insert(handle.id(), Arc::downgrade(&schedule));
        schedule
    }
}

impl Hold {
    /// Puts a granted hold under the keeper's care, for `max_hold` at most; `sent` is when its winning
    /// request was.
    pub(crate) fn keep(self: &Arc<Self>, sent: Moment, ttl: Duration, max_hold: Option<Duration>) {
        self.start(sent, ttl, max_hold);
        self.keeper.registry.enter(self);
        self.notify_early_end();
        let due = renewal_due(sent, ttl);
        let first = self.keeper.first_renewal.map(|after| sent.plus(after));
        self.attend_at(first.map_or(due, |first| first.min(due)));
    }

    /// Looks at the hold then, or when its turn ends.
    pub(crate) fn attend_at(self: &Arc<Self>, due: Moment) {
        let due = self.turn_ends().map_or(due, |ends| ends.min(due));
        if self.schedule.enter(self, due) {
            let keeping = keep(Arc::clone(&self.schedule), self.keeper.clock);
            self.handle.spawn(keeping);
        }
        // It may have ended just before it was entered, and whoever ended it has taken it out.
        if self.has_ended() {
            self.schedule.remove(self);
        }
    }

    /// Ends its validity `ttl` after `since` at the latest, lock delay included, unless a later request is
    /// confirmed, and renews it soon.
    pub(crate) fn count_on_at_most(self: &Arc<Self>, since: Moment, ttl: Duration) {
        if self.limit(since, self.usable(ttl)) {
            self.mark_recheck();
            self.attend_at(self.keeper.clock.now());
        }
    }

    fn apply(self: &Arc<Self>, renewal: Renewal) {
        match renewal {
            Renewal::Held { sent, ttl } => match self.extend(sent, self.usable(ttl)) {
                Extended::Until(renewal_due) => {
                    self.attend_at(renewal_due);
                    // Asked after the appointment is made, so that no alarm falls in between.
                    if self.needs_recheck() {
                        self.attend_at(self.next_recheck());
                    }
                }
                Extended::NotAtAll => self.renew_again(),
                Extended::Ended => {}
            },
            Renewal::Lost(reason) => {
                self.end(reason);
            }
            Renewal::Unknown => self.renew_again(),
        }
    }

    /// Tries again after a pause, and looks at the hold at its deadline at the latest.
    fn renew_again(self: &Arc<Self>) {
        self.renewal_failed();
        let Ok(deadline) = self.expire_if_due() else {
            return;
        };
        let pause = (self.remaining() / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
        let again = self.keeper.clock.now().plus(pause);
        self.attend_at(again.min(deadline));
    }
}

/// The keeper task: attends to the holds of `schedule` until there are none.
async fn keep(schedule: Arc<RenewalSchedule>, clock: Clock) {
    let mut ending = TaskEnding(Some(&schedule));
    let mut renewals = JoinSet::new();
    loop {
        let batch = attend(&schedule, clock);
        if !batch.is_empty() {
            renewals.spawn(renew(batch));
        }
        let appointment = match schedule.plan(!renewals.is_empty()) {
            NextWakeUp::SleepUntil(due) => Some(due),
            NextWakeUp::FinishWork => None,
            NextWakeUp::Stop => {
                ending.0 = None;
                return;
            }
        };
        // Each arm is cancel safe: a notification that is not consumed stays, a timer and a
        // finished renewal are looked at again in the next turn.
        tokio::select! {
            () = schedule.changed() => {}
            () = clock.sleep_until(appointment.unwrap_or(clock.now())), if appointment.is_some() => {}
            Some(_) = renewals.join_next(), if !renewals.is_empty() => {}
        }
    }
}

/// Tells the schedule when the task is dropped together with its runtime.
struct TaskEnding<'a>(Option<&'a RenewalSchedule>);

impl Drop for TaskEnding<'_> {
    fn drop(&mut self) {
        if let Some(schedule) = self.0 {
            schedule.task_ended();
        }
    }
}

/// Ends what has expired and returns the holds to be renewed now.
fn attend(schedule: &RenewalSchedule, clock: Clock) -> Vec<Arc<Hold>> {
    let mut batch = Vec::new();
    for hold in schedule.take_due(clock.now()) {
        // The task is running, so entering starts none.
        match hold.step() {
            Step::Renew(deadline) => {
                let _running = schedule.enter(&hold, deadline);
                batch.push(hold);
            }
            Step::WaitUntil(deadline) => {
                let _running = schedule.enter(&hold, deadline);
            }
            Step::Forget => {}
        }
    }
    batch
}

/// One renewal of several holds of one client, bounded by half the time that the first of them has
/// left, so that there is time for another attempt.
async fn renew(holds: Vec<Arc<Hold>>) {
    let Some(first) = holds.first() else { return };
    let ids: Vec<HoldId> = holds.iter().map(|hold| hold.id.clone()).collect();
    let left = holds.iter().map(|hold| hold.remaining()).min();
    let limit = (left.unwrap_or_default() / 2).max(Duration::from_millis(1));
    let outcome = tokio::time::timeout(limit, first.keeper.renew(&ids)).await;
    match outcome {
        Ok(Ok(renewals)) if renewals.len() == holds.len() => {
            for (hold, renewal) in holds.iter().zip(renewals) {
                hold.apply(renewal);
            }
            return;
        }
        Ok(Ok(renewals)) => tracing::error!(
            "the backend answered {} renewals for {} holds",
            renewals.len(),
            holds.len()
        ),
        Ok(Err(error)) => tracing::debug!(%error, "renewal failed; trying again"),
        Err(_) => tracing::debug!(?limit, "renewal took too long; trying again"),
    }
    holds.iter().for_each(Hold::renew_again);
}
