//! What becomes of a client to which the server refuses a further connection.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use crate::pool::Pool;

/// All pools of a client, of which one gives up a connection for another that has none.
#[derive(Default)]
pub(crate) struct Allowance {
    pools: Mutex<Vec<(Weak<Pool>, Arc<AtomicUsize>)>>,
    /// How many requests wait for a connection of another pool to be closed.
    asking: AtomicUsize,
    closed: Notify,
}

impl Allowance {
    pub(crate) fn enter(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|(pool, _)| pool.strong_count() > 0);
        pools.push((Arc::downgrade(pool), Arc::default()));
    }

    /// How many connections of `pool` are open.
    pub(crate) fn opened(&self, pool: &Pool) -> usize {
        self.count(pool)
            .map_or(0, |count| count.load(Ordering::SeqCst))
    }

    fn count(&self, pool: &Pool) -> Option<Arc<AtomicUsize>> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pools = pools.iter();
        let entry = pools.find(|(other, _)| std::ptr::eq(other.as_ptr(), pool))?;
        Some(Arc::clone(&entry.1))
    }

    /// Waits until another pool has closed a connection: one that is idle, or else the next that comes back.
    pub(crate) async fn ask_for_one(&self, pool: &Pool) {
        let closed = self.closed.notified();
        let _asking = Asking::of(self);
        if !self.others(pool).iter().any(|other| other.close_idle()) {
            closed.await;
        }
    }

    /// Closes an idle connection of another pool that the pool can do without; `false` if there is none.
    pub(crate) fn close_spare(&self, pool: &Pool) -> bool {
        let is_spare = |other: &Arc<Pool>| !other.wire.is_vital || self.opened(other) > 1;
        let others = self.others(pool);
        others
            .iter()
            .any(|other| is_spare(other) && other.close_idle())
    }

    /// Closes what is idle in all pools.
    pub(crate) fn forget_idle(&self) {
        let pools: Vec<_> = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools
                .iter()
                .filter_map(|(pool, _)| pool.upgrade())
                .collect()
        };
        pools.iter().for_each(|pool| pool.forget_idle());
    }

    fn others(&self, pool: &Pool) -> Vec<Arc<Pool>> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let others = pools.iter().filter_map(|(pool, _)| pool.upgrade());
        others
            .filter(|other| !std::ptr::eq(&**other, pool))
            .collect()
    }

    /// Whether what comes back is better closed.
    pub(crate) fn is_asked_for_one(&self) -> bool {
        self.asking.load(Ordering::SeqCst) > 0
    }
}

/// A request that waits for a connection to be closed.
struct Asking<'a>(&'a Allowance);

impl<'a> Asking<'a> {
    fn of(allowance: &'a Allowance) -> Self {
        allowance.asking.fetch_add(1, Ordering::SeqCst);
        Self(allowance)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts one open connection as long as it lives.
pub(crate) struct Opened {
    allowance: Arc<Allowance>,
    count: Option<Arc<AtomicUsize>>,
}

impl Opened {
    pub(crate) fn in_pool(pool: &Pool) -> Self {
        let allowance = Arc::clone(&pool.allowance);
        let count = allowance.count(pool);
        if let Some(count) = &count {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Self { allowance, count }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            count.fetch_sub(1, Ordering::SeqCst);
        }
        if self.allowance.is_asked_for_one() {
            self.allowance.closed.notify_one();
        }
    }
}

impl fmt::Debug for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowance").finish_non_exhaustive()
    }
}
