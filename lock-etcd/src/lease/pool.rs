//! The leases of a client: one for each ttl and reserve, granted when the first claim needs it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{ClaimId, HoldId, LossSender, Mutex};
use tokio::sync::watch;

use crate::connection::shared_connection::SharedConnection;
use crate::error::{lease_ended, runtime_gone};
use crate::lease::grant::Granting;
use crate::lease::keep_alive::KeepAlive;
use crate::lease::maintain::maintain;
use crate::lease::shared_lease::SharedLease;

/// The number of leases that a claim tries: a lease may retire before the claim enters it.
const ATTEMPTS: u32 = 3;

/// The time in seconds by which a lease is longer than a minimum hold. The confirmation of a lease
/// is older than the grants that count on it.
const CONFIRMATION: u64 = 1;

/// The ttl of all claims that share a lease, and the reserve that their guards do not count on, in
/// whole seconds. The ttl is rounded down, so that a crashed holder blocks no waiter for longer
/// than it asked for. The reserve covers lock delay and minimum hold. It is rounded up, so that the
/// key stays closed for no less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    ttl: u64,
    reserve: u64,
}

impl Span {
    pub(crate) fn of(hold: &HoldId) -> Self {
        let ttl = hold.ttl().as_secs();
        let least = match hold.min_hold() {
            Duration::ZERO => 0,
            minimum => rounded_up(minimum) + CONFIRMATION,
        };
        Self {
            ttl,
            reserve: rounded_up(hold.lock_delay()).max(least.saturating_sub(ttl)),
        }
    }

    /// Returns the ttl of the lease on the servers.
    fn lease(self) -> Duration {
        Duration::from_secs(self.ttl + self.reserve)
    }
}

fn rounded_up(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The leases that are kept alive over one connection.
pub(crate) struct LeasePool {
    connection: Arc<SharedConnection>,
    keep_alive: KeepAlive,
    /// The leases that accept new claims.
    shared: Mutex<HashMap<Span, Arc<SharedLease>>>,
    /// The grants that are under way; each channel closes with the answer.
    asking: Mutex<HashMap<Span, watch::Receiver<()>>>,
    pub(crate) granting: Arc<Granting>,
    /// Closes when the client is dropped, which ends the tasks that maintain leases.
    in_use: watch::Sender<()>,
}

impl LeasePool {
    pub(crate) fn over(connection: Arc<SharedConnection>) -> Arc<Self> {
        Arc::new(Self {
            keep_alive: KeepAlive::over(Arc::clone(&connection)),
            granting: Arc::new(Granting::over(Arc::clone(&connection))),
            connection,
            shared: Mutex::default(),
            asking: Mutex::default(),
            in_use: watch::Sender::new(()),
        })
    }

    /// Enters `claim` into a lease for `span`.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        span: Span,
        claim: ClaimId,
        loss: &LossSender,
    ) -> Result<Arc<SharedLease>> {
        let mut retry = 0;
        while retry < ATTEMPTS {
            let Some(lease) = self.open_for(span) else {
                self.ask_for(span, claim).await?;
                continue;
            };
            // The lease may have been retired just now.
            if lease.enter(claim, loss.clone()) {
                return Ok(lease);
            }
            retry += 1;
        }
        Err(lease_ended())
    }

    /// Grants a new lease, or waits for the end of a grant that another claim has started.
    async fn ask_for(self: &Arc<Self>, span: Span, claim: ClaimId) -> Result<()> {
        let (ours, end) = watch::channel(());
        let other = {
            let mut asking = self.asking.lock();
            asking.retain(|_, one| one.has_changed().is_ok());
            let other = asking.get(&span).cloned();
            if other.is_none() {
                asking.insert(span, end);
            }
            other
        };
        if let Some(mut other) = other {
            // Nothing is ever sent on this channel: it only closes.
            while other.changed().await.is_ok() {}
            return Ok(());
        }
        // In a task of its own: a dropped caller leaves no unknown lease behind, and a caller that
        // is not polled delays no other caller.
        let leases = Arc::clone(self);
        let asking = self.connection.runtime().spawn(async move {
            let _ours = ours;
            match leases.open_for(span) {
                Some(_) => Ok(()),
                None => leases.grant(span, claim).await,
            }
        });
        asking.await.unwrap_or_else(|_| Err(runtime_gone()))
    }

    /// Returns the lease for this span that accepts claims, if the pool has such a lease.
    fn open_for(&self, span: Span) -> Option<Arc<SharedLease>> {
        let lease = self.shared.lock().get(&span).cloned()?;
        (!lease.is_retired()).then_some(lease)
    }

    async fn grant(&self, span: Span, claim: ClaimId) -> Result<()> {
        let granted = self.granting.grant(claim, span.lease()).await?;
        let reserve = Duration::from_secs(span.reserve);
        let (granting, keep_alive) = (Arc::clone(&self.granting), self.keep_alive.clone());
        let lease = SharedLease::new(granted, claim, granting, keep_alive, reserve);
        let mut shared = self.shared.lock();
        shared.retain(|_, lease| !lease.is_retired());
        shared.insert(span, Arc::clone(&lease));
        drop(shared);
        let tending = maintain(Arc::clone(&self.connection), lease, self.in_use.subscribe());
        self.connection.runtime().spawn(tending);
        Ok(())
    }

    /// Retires all leases, so that each ends with its last claim.
    pub(crate) fn retire(&self) {
        for (_, lease) in self.shared.lock().drain() {
            lease.retire();
        }
    }
}
