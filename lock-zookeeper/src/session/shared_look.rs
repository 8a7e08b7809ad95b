//! A look at a queue whose answer several callers share.

use std::sync::Arc;

use lock_core::backend::Clock;
use zookeeper_client::Error as ZooKeeperError;

use crate::error::DriverResult;
use crate::queue::Queue;
use crate::session::looks::Seen;
use crate::session::requests::Session;

/// A look that is under way. If callers wait for the next one, it begins when this one is dropped.
struct SharedLook<'a> {
    session: &'a Arc<Session>,
    lock: &'a Arc<str>,
}

impl Session {
    /// Looks at the queue of `lock` through the leader, and confirms the session. Callers that ask
    /// while a look is under way share the next one.
    pub(crate) async fn look_together(self: &Arc<Self>, lock: &Arc<str>) -> DriverResult<Seen> {
        if let Some(answer) = self.looks().ask(lock) {
            return answer.await.unwrap_or(Err(ZooKeeperError::ConnectionLoss));
        }
        let under_way = SharedLook {
            session: self,
            lock,
        };
        let seen = under_way.look().await;
        drop(under_way);
        seen
    }
}

impl SharedLook<'_> {
    /// Looks at the queue, and answers the callers that asked before the look was sent.
    async fn look(&self) -> DriverResult<Seen> {
        let looks = self.session.looks();
        let _one_of_few = looks.limit.acquire().await;
        let askers = match looks.queues.lock().get_mut(self.lock) {
            Some(entry) => std::mem::take(&mut entry.askers),
            None => Vec::new(),
        };
        let sent = Clock::Boot.now();
        let (confirmed, children) = match self.session.confirmed_lately() {
            Some(confirmed) => (confirmed, self.session.list(self.lock).await),
            None => (sent, self.session.look_and_confirm(self.lock).await),
        };
        let seen = children.map(|children| (confirmed, Arc::new(Queue::new(children))));
        if let (Ok(seen), Some(entry)) = (&seen, looks.queues.lock().get_mut(self.lock)) {
            entry.last = Some((sent, seen.clone()));
        }
        for asker in askers {
            // The caller may be gone.
            let _ = asker.send(seen.clone());
        }
        seen
    }
}

impl Drop for SharedLook<'_> {
    fn drop(&mut self) {
        let looks = self.session.looks();
        let is_wanted = match looks.queues.lock().get_mut(self.lock) {
            Some(entry) => {
                entry.is_under_way = !entry.askers.is_empty();
                entry.is_under_way
            }
            None => false,
        };
        if is_wanted {
            let (session, lock) = (Arc::clone(self.session), Arc::clone(self.lock));
            looks.runtime.spawn(async move {
                let next = SharedLook {
                    session: &session,
                    lock: &lock,
                };
                // The waiting callers get the answer.
                let _seen = next.look().await;
            });
        }
    }
}
