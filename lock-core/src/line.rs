//! The waiting line of one process: its waiters for a key stand in order, and only the first one
//! deals with the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as FairMutex, OwnedMutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::LockKey;
use crate::sync::locked;

/// Lines up the waiters of one client, key by key.
///
/// For stores that keep no queue of their own. It serves in order of arrival, and it turns a
/// stampede of all local waiters at each release into one request.
#[derive(Clone, Default)]
pub struct Line {
    keys: Arc<Mutex<HashMap<LockKey, Queue>>>,
}

/// Who stands in line for one key.
#[derive(Debug, Default)]
struct Queue {
    turns: Arc<FairMutex<()>>,
    places: usize,
}

impl Line {
    /// A line with nobody in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether anybody stands in line for `key`.
    pub fn is_waited_for(&self, key: &LockKey) -> bool {
        locked(&self.keys).contains_key(key)
    }

    /// Stands in line for `key` until everybody before has left, or until `ends`; `None` then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the place up.
    pub async fn enter(&self, key: &LockKey, ends: Option<Instant>) -> Option<Turn> {
        let (place, turns) = self.take_place(key);
        let turn = turns.lock_owned();
        let turn = match ends {
            None => turn.await,
            Some(ends) => timeout_at(ends, turn).await.ok()?,
        };
        Some(Turn {
            _turn: turn,
            _place: place,
        })
    }
}

impl Line {
    fn take_place(&self, key: &LockKey) -> (Place, Arc<FairMutex<()>>) {
        let mut keys = locked(&self.keys);
        let queue = keys.entry(key.clone()).or_default();
        queue.places += 1;
        let turns = Arc::clone(&queue.turns);
        let place = Place {
            line: self.clone(),
            key: key.clone(),
        };
        (place, turns)
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(locked(&self.keys).keys()).finish()
    }
}

/// The first place in a line; dropping it lets the next one have its turn.
#[derive(Debug)]
#[must_use = "dropping a turn lets the next one have it"]
pub struct Turn {
    // Declared first, so dropped first: a key is forgotten only when nobody has a turn.
    _turn: OwnedMutexGuard<()>,
    _place: Place,
}

#[derive(Debug)]
struct Place {
    line: Line,
    key: LockKey,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut keys = locked(&self.line.keys);
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

    #[tokio::test]
    async fn serves_in_order_and_leaves_nothing_behind() {
        let (line, key) = (Line::new(), LockKey::new("k").unwrap());
        let first = line.enter(&key, None).await;
        let mut second = Box::pin(line.enter(&key, None));
        let mut third = Box::pin(line.enter(&key, None));
        assert!(futures_poll(&mut second).is_none());
        assert!(futures_poll(&mut third).is_none());
        drop(first);
        assert!(futures_poll(&mut third).is_none(), "overtook the second");
        drop(second);
        let turn = futures_poll(&mut third).expect("a cancelled waiter passes its turn on");
        assert!(line.is_waited_for(&key));
        drop(turn);
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
