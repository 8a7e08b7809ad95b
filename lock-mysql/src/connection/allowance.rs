//! Connections of a client to which the server refuses a further one.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::connection::pool::Pool;
use crate::connection::session::Session;
use lock_core::Mutex;

/// All pools of a client, of which one gives up a connection for another that has none.
#[derive(Default)]
pub(crate) struct Allowance {
    pools: Mutex<Vec<(Weak<Pool>, Arc<AtomicUsize>)>>,
    /// In the order in which they came.
    asking: Mutex<Vec<Arc<Asker>>>,
}

/// A request that waits for a connection of another pool.
struct Asker {
    pool: Arc<Pool>,
    /// The server takes a new connection once another one is closed.
    may_open: bool,
    answered: Notify,
}

impl Allowance {
    pub(crate) fn enter(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.lock();
        pools.retain(|(pool, _)| pool.strong_count() > 0);
        pools.push((Arc::downgrade(pool), Arc::default()));
    }

    /// Returns how many connections of `pool` are open.
    pub(crate) fn opened(&self, pool: &Pool) -> usize {
        self.count(pool)
            .map_or(0, |count| count.load(Ordering::SeqCst))
    }

    fn count(&self, pool: &Pool) -> Option<Arc<AtomicUsize>> {
        let pools = self.pools.lock();
        let mut pools = pools.iter();
        let entry = pools.find(|(other, _)| std::ptr::eq(other.as_ptr(), pool))?;
        Some(Arc::clone(&entry.1))
    }

    /// Moves an idle connection of another pool to `pool`; `false` if there is none that it can use.
    pub(crate) fn take_over(&self, pool: &Arc<Pool>) -> bool {
        let others = self.others(pool);
        let Some(session) = others.iter().find_map(|other| other.give(pool)) else {
            return false;
        };
        pool.take_in(session);
        true
    }

    /// Waits until another pool has given a connection to `pool`, or, where the server takes another one if `may_open`,
    /// has closed one: one that is idle, or else the next that comes back.
    pub(crate) async fn ask_for_one(&self, pool: &Arc<Pool>, may_open: bool) {
        // Before the look, or what comes back meanwhile would be missed.
        let asking = Asking::of(self, pool, may_open);
        let closes_one = || self.others(pool).iter().any(|other| other.close_idle());
        let has_room = self.take_over(pool) || may_open && closes_one();
        if !has_room {
            asking.asker.answered.notified().await;
        }
    }

    /// Gives a connection that comes back to the first request that waits and can use it. Returns it if nobody waits, and
    /// closes it if those who wait can only open another one instead.
    pub(crate) fn pass_on(&self, session: Session, from: &Pool) -> Option<Session> {
        let mut asking = self.asking.lock();
        if asking.is_empty() {
            return Some(session);
        }
        let uses = |asker: &Arc<Asker>| from.can_give(&session, &asker.pool);
        if let Some(number) = asking.iter().position(uses) {
            let asker = asking.remove(number);
            drop(asking);
            asker.pool.take_in(session);
            asker.answered.notify_one();
            return None;
        }
        let may_open = asking.iter().any(|asker| asker.may_open);
        drop(asking);
        Some(session).filter(|_| !may_open)
    }

    /// Closes an idle connection of another pool that the pool can do without; `false` if there is none.
    pub(crate) fn close_spare(&self, pool: &Pool) -> bool {
        let is_spare = |other: &Arc<Pool>| !other.connector.is_vital || self.opened(other) > 1;
        let others = self.others(pool);
        others
            .iter()
            .any(|other| is_spare(other) && other.close_idle())
    }

    /// Closes what is idle in all pools.
    pub(crate) fn forget_idle(&self) {
        let pools: Vec<_> = {
            let pools = self.pools.lock();
            pools
                .iter()
                .filter_map(|(pool, _)| pool.upgrade())
                .collect()
        };
        pools.iter().for_each(|pool| pool.forget_idle());
    }

    fn others(&self, pool: &Pool) -> Vec<Arc<Pool>> {
        let pools = self.pools.lock();
        let others = pools.iter().filter_map(|(pool, _)| pool.upgrade());
        others
            .filter(|other| !std::ptr::eq(&**other, pool))
            .collect()
    }

    /// Tells the first who can open another connection that one was closed.
    fn closed(&self) {
        let mut asking = self.asking.lock();
        if let Some(number) = asking.iter().position(|asker| asker.may_open) {
            asking.remove(number).answered.notify_one();
        }
    }
}

/// A place among those who ask.
struct Asking<'a> {
    allowance: &'a Allowance,
    asker: Arc<Asker>,
}

impl<'a> Asking<'a> {
    fn of(allowance: &'a Allowance, pool: &Arc<Pool>, may_open: bool) -> Self {
        let asker = Arc::new(Asker {
            pool: Arc::clone(pool),
            may_open,
            answered: Notify::new(),
        });
        allowance.asking.lock().push(Arc::clone(&asker));
        Self { allowance, asker }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asking = self.allowance.asking.lock();
        asking.retain(|asker| !Arc::ptr_eq(asker, &self.asker));
    }
}

/// Counts one open connection as long as it lives.
pub(crate) struct Opened {
    allowance: Arc<Allowance>,
    count: Option<Arc<AtomicUsize>>,
}

impl Opened {
    pub(crate) fn in_pool(pool: &Pool) -> Self {
        let mut opened = Self {
            allowance: Arc::clone(&pool.allowance),
            count: None,
        };
        opened.moves_to(pool);
        opened
    }

    /// Counts it in another pool from now on.
    pub(crate) fn moves_to(&mut self, pool: &Pool) {
        self.leave();
        self.count = self.allowance.count(pool);
        if let Some(count) = &self.count {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn leave(&mut self) {
        if let Some(count) = self.count.take() {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.leave();
        self.allowance.closed();
    }
}

impl fmt::Debug for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowance").finish_non_exhaustive()
    }
}
