//! The waiting line of one process: its waiters for a key stand in order, and only the first one
//! deals with the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex as FairMutex, OwnedMutexGuard, watch};
use tokio::time::{Instant, sleep_until};

use crate::backend::Moment;
use crate::backend::followers::{Followers, QueuedBehind};
use crate::backend::retry::Retry;
use crate::mutex::Mutex;
use crate::{Error, LockKey, Result};

/// Lines up the waiters of one client, key by key.
///
/// For stores that keep no queue of their own. It serves in order of arrival, and it turns a
/// stampede of all local waiters at each release into one request.
#[derive(Clone, Default)]
pub struct LocalQueue {
    keys: Arc<Mutex<HashMap<LockKey, KeyQueue>>>,
}

/// The waiters for one key.
#[derive(Debug, Default)]
struct KeyQueue {
    standing: Arc<QueuedWaiter>,
    places: usize,
}

/// The turns of one key, and the news for those who wait for one.
#[derive(Debug, Default)]
struct QueuedWaiter {
    turns: Arc<FairMutex<()>>,
    /// Why the first in line does not reach the store, and when the store was last heard.
    outage: watch::Sender<Option<(Error, Moment)>>,
}

impl LocalQueue {
    /// Makes an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if a waiter stands in line for `key`.
    pub fn is_waited_for(&self, key: &LockKey) -> bool {
        self.keys.lock().contains_key(key)
    }

    /// Stands in line for `key` until everybody before has left, or until the wait ends; `None` then. From
    /// then on, those behind are told of the outages that `attempts` rides out.
    ///
    /// # Errors
    ///
    /// Why the store cannot be reached, when the wait has no end of its own and nothing was heard of the store for
    /// 30 seconds of it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the place up.
    pub async fn enter(&self, key: &LockKey, attempts: &mut Retry) -> Result<Option<LocalTurn>> {
        let (place, standing) = self.take_place(key);
        let mut outage = standing.outage.subscribe();
        let outlasted = async {
            loop {
                let _news = outage.changed().await;
                if let Some((error, heard)) = &*outage.borrow_and_update()
                    && attempts.outlasts(*heard)
                {
                    return error.clone();
                }
            }
        };
        let turn = tokio::select! {
            biased;
            turn = Arc::clone(&standing.turns).lock_owned() => turn,
            error = outlasted => return Err(error),
            () = end_of(attempts.ends()) => return Ok(None),
        };
        let behind: Arc<dyn QueuedBehind> = standing;
        attempts.tell(Followers(Arc::downgrade(&behind)));
        Ok(Some(LocalTurn {
            _turn: turn,
            _place: place,
        }))
    }

    fn take_place(&self, key: &LockKey) -> (QueuePlace, Arc<QueuedWaiter>) {
        let mut keys = self.keys.lock();
        let queue = keys.entry(key.clone()).or_default();
        queue.places += 1;
        let standing = Arc::clone(&queue.standing);
        let place = QueuePlace {
            line: self.clone(),
            key: key.clone(),
        };
        (place, standing)
    }
}

async fn end_of(wait: Option<Instant>) {
    match wait {
        Some(ends) => sleep_until(ends).await,
        None => std::future::pending().await,
    }
}

impl QueuedBehind for QueuedWaiter {
    fn cut_off(&self, error: &Error, heard: Moment) {
        self.outage.send_replace(Some((error.clone(), heard)));
    }
}

impl fmt::Debug for LocalQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.lock().keys()).finish()
    }
}

/// The first place in a line; dropping it lets the next one have its turn.
#[derive(Debug)]
#[must_use = "dropping a turn lets the next one have it"]
pub struct LocalTurn {
    // Declared first, so dropped first: a key is forgotten only when no waiter has a turn.
    _turn: OwnedMutexGuard<()>,
    _place: QueuePlace,
}

#[derive(Debug)]
struct QueuePlace {
    line: LocalQueue,
    key: LockKey,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut keys = self.line.keys.lock();
        let Some(queue) = keys.get_mut(&self.key) else {
            return;
        };
        queue.places -= 1;
        if queue.places == 0 {
            keys.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockRequest;
    use std::time::Duration;

    fn attempts() -> Retry {
        let request = LockRequest::exclusive("k").unwrap();
        Retry::new(&request, Duration::from_secs(1))
    }

    #[tokio::test]
    async fn serves_in_order_and_leaves_nothing_behind() {
        let (line, key) = (LocalQueue::new(), LockKey::new("k").unwrap());
        let [mut of_first, mut of_second, mut of_third] = [attempts(), attempts(), attempts()];
        let first = line.enter(&key, &mut of_first).await;
        let mut second = Box::pin(line.enter(&key, &mut of_second));
        let mut third = Box::pin(line.enter(&key, &mut of_third));
        assert!(futures_poll(&mut second).is_none());
        assert!(futures_poll(&mut third).is_none());
        drop(first);
        assert!(futures_poll(&mut third).is_none(), "overtook the second");
        drop(second);
        let turn = futures_poll(&mut third).expect("a cancelled waiter passes its turn on");
        assert!(line.is_waited_for(&key));
        drop(turn);
        drop(third);
        assert!(
            !line.is_waited_for(&key),
            "the line remembers a key that nobody waits for"
        );
    }

    fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
