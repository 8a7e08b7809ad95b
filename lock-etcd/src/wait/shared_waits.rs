//! The waits of a client for all keys, and the pace at which they look by themselves.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Clock, Moment, Mutex};
use tokio::sync::oneshot;

use crate::connection::shared::SharedConnection;
use crate::queue::Queue;
use crate::wait::queue_watch::look_after;
use crate::wait::shared_wait::{SharedWait, Waiter};
use crate::wait::ticket::Ticket;
use crate::watch::watches::Watches;

/// The shortest time between two waits of a client that look by themselves.
const PACE: Duration = Duration::from_millis(250);

/// The waits of a client, by the queues that they are in.
pub(crate) struct SharedWaits {
    pub(crate) link: Arc<SharedConnection>,
    pub(crate) watches: Watches,
    by_queue: Mutex<HashMap<String, Arc<SharedWait>>>,
    /// When the next wait may look by itself.
    next_look: Mutex<Moment>,
}

impl SharedWaits {
    pub(crate) fn over(link: Arc<SharedConnection>, watches: Watches) -> Arc<Self> {
        Arc::new(Self {
            link,
            watches,
            by_queue: Mutex::default(),
            next_look: Mutex::new(Clock::Boot.now()),
        })
    }

    /// Returns true if somebody waits in this queue, so that whoever comes now waits, too.
    pub(crate) fn has_waiter(&self, queue: &str) -> bool {
        let wait = self.by_queue.lock().get(queue).cloned();
        wait.is_some_and(|wait| !wait.is_empty())
    }

    /// Waits in `queue` for the turn of the claim with this `key`, which was `created` then. `seen` is what
    /// its take was answered with.
    pub(crate) fn enter(
        self: &Arc<Self>,
        queue: &str,
        (key, created): (&Arc<str>, i64),
        seen: Option<Queue>,
    ) -> Ticket {
        let (tell, told) = oneshot::channel();
        let mut waits = self.by_queue.lock();
        let (wait, is_new) = match waits.get(queue) {
            Some(wait) => (Arc::clone(wait), false),
            None => (SharedWait::new(queue), true),
        };
        let waiter = Waiter {
            key: Arc::clone(key),
            tell,
        };
        wait.enter(created, waiter, seen);
        if is_new {
            waits.insert(queue.to_owned(), Arc::clone(&wait));
            let looking = look_after(Arc::clone(&wait), Arc::clone(self));
            let runtime = self.link.runtime();
            runtime.spawn(looking);
        }
        Ticket::new(wait, created, told)
    }

    /// Forgets a wait that nobody is in; `false` when somebody came meanwhile.
    pub(crate) fn end(&self, wait: &SharedWait) -> bool {
        let mut waits = self.by_queue.lock();
        let is_over = wait.is_empty();
        if is_over {
            waits.remove(&wait.queue);
        }
        is_over
    }

    /// When a wait may look that has not been told anything for a while: one after the other, so that many of
    /// them do not keep the servers busy.
    pub(crate) fn next_look(&self) -> Moment {
        let mut next = self.next_look.lock();
        let turn = Clock::Boot.now().max(*next);
        *next = turn.plus(PACE);
        turn
    }
}

impl fmt::Debug for SharedWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_queue.lock().keys()).finish()
    }
}
