//! Sharing of connections between a client's pools, if the server refuses a further connection.

use std::sync::{Arc, Weak};

use lock_core::backend::Mutex;
use tokio::runtime;

use crate::connection::idle::{IdleSessions, Purpose, SessionQueue};

/// All pools of a client. A pool gives a connection to another pool that has none.
#[derive(Default)]
pub(crate) struct Allowance {
    pools: Mutex<Vec<Weak<IdleSessions>>>,
    queue: Arc<SessionQueue>,
}

impl Allowance {
    /// Adds a pool that uses sessions of the `runtimes`.
    pub(crate) fn enter(&self, purpose: Purpose, runtimes: [runtime::Id; 2]) -> Arc<IdleSessions> {
        let idle = IdleSessions::new(purpose, runtimes, Arc::clone(&self.queue));
        let mut pools = self.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&idle));
        idle
    }

    /// Waits until another pool has given a connection to `pool`, or has closed a connection.
    ///
    /// The connection is idle, or the next that a request returns. A connection is closed only if
    /// the server then accepts a new connection, which `may_open` says.
    pub(crate) async fn ask_for_one(&self, pool: &Arc<IdleSessions>, may_open: bool) {
        // Entered before the search, so that a connection that is returned meanwhile is not missed.
        let entry = pool.enter_queue(may_open);
        let is_given = self.others(pool).any(|other| other.give(pool));
        let has_room = is_given || may_open && self.others(pool).any(|other| other.close_one());
        if !has_room {
            entry.answered().await;
        }
    }

    /// Closes an idle connection that another pool does not need; `false` if there is none.
    pub(crate) fn close_spare(&self, pool: &Arc<IdleSessions>) -> bool {
        let is_spare = |other: &IdleSessions| !other.purpose.is_vital || other.opened() > 1;
        self.others(pool)
            .any(|other| is_spare(&other) && other.close_one())
    }

    /// Closes the idle connections of all pools.
    pub(crate) fn close_idle(&self) {
        self.pools().for_each(|pool| pool.close_all());
    }

    fn others(&self, pool: &Arc<IdleSessions>) -> impl Iterator<Item = Arc<IdleSessions>> {
        self.pools().filter(move |other| !Arc::ptr_eq(other, pool))
    }

    fn pools(&self) -> impl Iterator<Item = Arc<IdleSessions>> + use<> {
        let pools = self.pools.lock().clone();
        pools.into_iter().filter_map(|pool| pool.upgrade())
    }
}
