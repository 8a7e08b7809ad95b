//! The keeper: the only module that knows holds, their store and their runtimes.

mod acquisition;
pub(crate) mod at_runtime;
mod background_release;
mod health;
pub(crate) mod inner;
pub(crate) mod recheck;
pub(crate) mod registry;
pub(crate) mod releases;
mod renewal;
pub(crate) mod runtime;
pub(crate) mod runtime_thread;
pub(crate) mod schedule;
pub(crate) mod shutdown;
pub(crate) mod shutdown_gate;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Clock, KeeperRuntime, LeaseStore, Moment};
use crate::keeper::at_runtime::RuntimeKeepers;
use crate::keeper::inner::KeeperInner;
use crate::keeper::registry::HoldRegistry;
use crate::waiter::count::Waiters;
use crate::waiter::slow_waits::SlowWaits;
use crate::waiter::watchdog::Watchdog;
use crate::{Capabilities, LockKey};

/// The keeper of one client's holds: makes claims, renews holds, declares losses.
///
/// It renews each hold at a third of its ttl and repeats a renewal with an unknown outcome until
/// the hold's deadline. It ends the hold exactly at the deadline, even during a renewal. All holds
/// of a client share one task and one timer.
///
/// ```
/// use std::sync::Arc;
/// use lock_core::Capabilities;
/// use lock_core::backend::{Keeper, KeeperRuntime, LeaseStore};
///
/// fn connect(store: Arc<dyn LeaseStore>) -> lock_core::Result<Keeper> {
///     Ok(Keeper::new(Capabilities::new("filesystem"), store, KeeperRuntime::thread()?))
/// }
/// ```
#[derive(Clone)]
pub struct Keeper {
    pub(crate) inner: Arc<KeeperInner>,
    /// The keeper's parts, one per runtime; a single one with the keeper thread.
    pub(crate) at_runtimes: Arc<RuntimeKeepers>,
}

impl Keeper {
    /// Creates a keeper for a backend with I/O, on `keeper_runtime`, with deadlines on
    /// [`Clock::Boot`].
    pub fn new(
        capabilities: Capabilities,
        store: Arc<dyn LeaseStore>,
        keeper_runtime: KeeperRuntime,
    ) -> Self {
        Self::with_clock(capabilities, store, keeper_runtime, Clock::Boot)
    }

    /// Creates a keeper for a backend inside this process.
    ///
    /// It runs on the runtime that acquires, with deadlines on tokio's clock, so that paused time
    /// applies.
    pub fn in_process(capabilities: Capabilities, store: Arc<dyn LeaseStore>) -> Self {
        Self::with_clock(capabilities, store, KeeperRuntime::caller(), Clock::Runtime)
    }

    fn with_clock(
        capabilities: Capabilities,
        store: Arc<dyn LeaseStore>,
        keeper_runtime: KeeperRuntime,
        clock: Clock,
    ) -> Self {
        let inner = KeeperInner {
            store,
            capabilities,
            clock,
            watchdog: Watchdog::new(keeper_runtime.clone()),
            slow_waits: SlowWaits::default(),
            waiters: Waiters::default(),
            keeper_runtime,
            gate: Arc::default(),
            registry: HoldRegistry::default(),
            first_renewal: None,
            releases: Arc::default(),
        };
        Self {
            inner: Arc::new(inner),
            at_runtimes: Arc::default(),
        }
    }

    /// Sets the latest time of each hold's first renewal, from its grant. Default: a third of the
    /// ttl.
    ///
    /// For stores that report the removal of a key only after a renewal has read that key.
    ///
    /// # Panics
    ///
    /// If the keeper was cloned before.
    #[must_use]
    pub fn with_first_renewal(mut self, after: Duration) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a keeper is set up before it is cloned");
        inner.first_renewal = Some(after);
        self
    }

    /// Returns the capabilities of the backend.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.capabilities.clone()
    }

    /// Returns the clock of the holds' deadlines.
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// Returns true if the keeper has a thread of its own, which works on while the runtimes of the
    /// callers stand still.
    pub fn has_own_thread(&self) -> bool {
        self.inner.keeper_runtime.outlives_callers()
    }

    /// Returns the watchdog of this client's waiters.
    pub(crate) fn watchdog(&self) -> Watchdog {
        self.inner.watchdog.clone()
    }

    /// Logs a waiter for `key` that has waited too long since `arrived`.
    pub(crate) fn note_wait(&self, key: &LockKey, arrived: Moment) {
        let (keeper, now) = (&self.inner, Clock::Boot.now());
        let held_for = || {
            let holds = keeper.registry.of(key);
            holds.iter().map(|hold| hold.held_for()).max()
        };
        let waited = now.since(arrived);
        keeper
            .slow_waits
            .note(key, keeper.capabilities.backend, (now, waited), held_for);
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}
