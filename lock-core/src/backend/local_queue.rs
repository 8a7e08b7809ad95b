//! A queue of the waiters of one client per key. Only the first waiter of a key asks the store.

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

/// A queue of the waiters of one client per key, served in order of arrival.
///
/// For stores without a queue: after a release only one task of this client asks the store.
///
/// ```
/// use lock_core::LockKey;
/// use lock_core::backend::LocalQueue;
///
/// let queue = LocalQueue::new();
/// assert!(!queue.is_waited_for(&LockKey::new("coupon/42")?));
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct LocalQueue {
    keys: Arc<Mutex<HashMap<LockKey, KeyQueue>>>,
}

/// The waiters for one key.
#[derive(Debug, Default)]
struct KeyQueue {
    turns: Arc<KeyTurns>,
    places: usize,
}

/// The turns of one key, and the outage that the first waiter reports to those behind it.
#[derive(Debug, Default)]
struct KeyTurns {
    turns: Arc<FairMutex<()>>,
    /// The error of the first waiter while the store is unreachable, and the time of the last
    /// reply.
    outage: watch::Sender<Option<(Error, Moment)>>,
}

impl LocalQueue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if a waiter is in the queue of `key`.
    pub fn is_waited_for(&self, key: &LockKey) -> bool {
        self.keys.lock().contains_key(key)
    }

    /// Enters the queue of `key` and waits for the turn; `None` if the wait ends before.
    ///
    /// During the turn, `attempts` reports each outage that it outlasts to the waiters behind.
    ///
    /// # Errors
    ///
    /// The error of the first waiter, if this wait has no limit and the store has not answered for
    /// 30 seconds of it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place.
    pub async fn enter(&self, key: &LockKey, attempts: &mut Retry) -> Result<Option<LocalTurn>> {
        let (place, turns) = self.take_place(key);
        let mut outage = turns.outage.subscribe();
        let outlasted = async {
            loop {
                let _news = outage.changed().await;
                if let Some((error, last_reply)) = &*outage.borrow_and_update()
                    && attempts.outlasts(*last_reply)
                {
                    return error.clone();
                }
            }
        };
        let turn = tokio::select! {
            biased;
            turn = Arc::clone(&turns.turns).lock_owned() => turn,
            error = outlasted => return Err(error),
            () = end_of(attempts.ends()) => return Ok(None),
        };
        let behind: Arc<dyn QueuedBehind> = turns;
        attempts.set_followers(Followers(Arc::downgrade(&behind)));
        Ok(Some(LocalTurn {
            _turn: turn,
            _place: place,
        }))
    }

    fn take_place(&self, key: &LockKey) -> (QueuePlace, Arc<KeyTurns>) {
        let mut keys = self.keys.lock();
        let queue = keys.entry(key.clone()).or_default();
        queue.places += 1;
        let turns = Arc::clone(&queue.turns);
        let place = QueuePlace {
            queue: self.clone(),
            key: key.clone(),
        };
        (place, turns)
    }
}

async fn end_of(wait: Option<Instant>) {
    match wait {
        Some(ends) => sleep_until(ends).await,
        None => std::future::pending().await,
    }
}

impl QueuedBehind for KeyTurns {
    fn record_outage(&self, error: &Error, last_reply: Moment) {
        self.outage.send_replace(Some((error.clone(), last_reply)));
    }
}

impl fmt::Debug for LocalQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.lock().keys()).finish()
    }
}

/// The turn of a waiter. Dropping it starts the next waiter's turn.
#[derive(Debug)]
#[must_use = "dropping a turn gives it to the next waiter"]
pub struct LocalTurn {
    // Declared first, so dropped first: the queue of a key is removed only after the turn has
    // ended.
    _turn: OwnedMutexGuard<()>,
    _place: QueuePlace,
}

#[derive(Debug)]
struct QueuePlace {
    queue: LocalQueue,
    key: LockKey,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut keys = self.queue.keys.lock();
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
