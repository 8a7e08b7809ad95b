//! The only place that knows holds, their store and the runtimes that they are kept on.

pub(crate) mod at_runtime;
mod background_release;
pub(crate) mod inner;
pub(crate) mod recheck;
pub(crate) mod registry;
pub(crate) mod releases;
mod renewal;
pub(crate) mod runtime;
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
use crate::waiter::slow_waits::SlowWaits;
use crate::waiter::watchdog::Watchdog;
use crate::{Capabilities, LockKey};

/// The keeper of one client's holds: makes claims, renews what they win, declares what is lost.
///
/// It renews each hold at a third of its ttl, repeats a renewal with an unknown outcome until the
/// hold's deadline, and ends the hold at the deadline exactly, whatever a renewal may be doing.
/// There is one task and one timer for all holds of a client.
#[derive(Clone)]
pub struct Keeper {
    pub(crate) inner: Arc<KeeperInner>,
    /// One for each runtime that holds are kept on: one with the keeper thread.
    pub(crate) at_runtimes: Arc<RuntimeKeepers>,
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
        let inner = KeeperInner {
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
        };
        Self {
            inner: Arc::new(inner),
            at_runtimes: Arc::default(),
        }
    }

    /// Renews each hold for the first time `after` its grant, if that is before a third of its ttl:
    /// for stores that tell of a removal only what a renewal has read. Default: at a third of the
    /// ttl.
    ///
    /// # Panics
    ///
    /// When the keeper was cloned before.
    #[must_use]
    pub fn with_first_renewal(mut self, after: Duration) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a keeper is set up before it is cloned");
        inner.first_renewal = Some(after);
        self
    }

    /// Returns what the backend declares.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.capabilities.clone()
    }

    /// The clock of its holds' deadlines.
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// The watchdog of its waiters.
    pub(crate) fn watchdog(&self) -> Watchdog {
        self.inner.watchdog.clone()
    }

    /// Looks at a waiter for `key` that came at `arrived`, and tells the log if it waits for too
    /// long.
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
