//! The waits of a client for all keys, and the rate of their looks without news.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Clock, Moment, Mutex};

use crate::connection::shared_connection::SharedConnection;
use crate::wait::shared_wait::SharedWait;
use crate::watch::watches::Watches;

/// The shortest time between two looks of a client that no watch has caused.
const PACE: Duration = Duration::from_millis(250);

/// The waits of a client by queue.
pub(crate) struct SharedWaits {
    pub(crate) connection: Arc<SharedConnection>,
    pub(crate) watches: Watches,
    pub(super) by_queue: Mutex<HashMap<String, Arc<SharedWait>>>,
    /// When the next look without news may be sent.
    next_look: Mutex<Moment>,
}

impl SharedWaits {
    pub(crate) fn over(connection: Arc<SharedConnection>, watches: Watches) -> Arc<Self> {
        Arc::new(Self {
            connection,
            watches,
            by_queue: Mutex::default(),
            next_look: Mutex::new(Clock::Boot.now()),
        })
    }

    /// Returns true if this queue has a waiter, so that the next claim has to wait, too.
    pub(crate) fn has_waiter(&self, queue: &str) -> bool {
        let wait = self.by_queue.lock().get(queue).cloned();
        wait.is_some_and(|wait| !wait.is_empty())
    }

    /// Removes a wait without waiters; returns false if a waiter has come.
    pub(crate) fn end(&self, wait: &SharedWait) -> bool {
        let mut waits = self.by_queue.lock();
        let is_over = wait.is_empty();
        if is_over {
            waits.remove(&wait.queue);
        }
        is_over
    }

    /// Reserves the time of a look for a wait without news. The looks of different waits follow
    /// each other, so that many of them do not keep the servers busy.
    pub(crate) fn next_look(&self) -> Moment {
        let mut next = self.next_look.lock();
        let turn = Clock::Boot.now().max(*next);
        *next = turn.plus(PACE);
        turn
    }
}
