//! The state of a client's keeper, shared by its parts on all runtimes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Clock, HoldId, KeeperRuntime, LeaseStore, Released, Renewal};
use crate::hold::Hold;
use crate::keeper::registry::HoldRegistry;
use crate::keeper::releases::Releases;
use crate::keeper::shutdown_gate::ShutdownGate;
use crate::waiter::count::Waiters;
use crate::waiter::slow_waits::SlowWaits;
use crate::waiter::watchdog::Watchdog;
use crate::{Capabilities, Result};

/// A client's store, holds, and pending releases.
pub(crate) struct KeeperInner {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Clock,
    pub(crate) keeper_runtime: KeeperRuntime,
    pub(crate) gate: Arc<ShutdownGate>,
    pub(crate) registry: HoldRegistry,
    /// Latest time of the first renewal, from the grant.
    pub(crate) first_renewal: Option<Duration>,
    pub(crate) releases: Arc<Releases>,
    pub(crate) watchdog: Watchdog,
    pub(crate) slow_waits: SlowWaits,
    pub(crate) waiters: Waiters,
}

impl KeeperInner {
    pub(crate) async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let renewals = self.store.renew(holds).await;
        renewals.map_err(|error| error.with_operation("renew"))
    }

    /// Releases `hold`. Only shortens it while its minimum hold is not over.
    pub(crate) async fn release(&self, hold: &Hold) -> Result<Released> {
        let id = &hold.id;
        let released = match hold.kept_for() {
            Some(left) => self.store.shorten(id, left).await,
            None => self.store.release(id).await,
        };
        released.map_err(|error| error.with_operation("release").with_key(id.key()))
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
