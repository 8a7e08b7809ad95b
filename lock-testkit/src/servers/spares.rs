//! Private servers for tests, used by one test after the other.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// A pool of servers for tests that freeze them. It starts a server if none is idle.
///
/// Starting most servers takes longer than such a test.
///
/// ```no_run
/// use lock_testkit::servers::{RedisServer, Spares};
///
/// static SPARES: Spares<RedisServer> = Spares::new(|server| server.thaw());
///
/// let server = SPARES.lend(RedisServer::start);
/// server.freeze();
/// ```
pub struct Spares<S: 'static> {
    thaw: fn(&S),
    idle: Mutex<Vec<S>>,
}

/// A lent server, which no other test uses; [`Spares`] has an example.
///
/// Dropping it thaws the server and returns it to the pool, unless the test panics.
pub struct Spare<S: 'static> {
    server: Option<S>,
    spares: &'static Spares<S>,
}

impl<S> Spares<S> {
    /// Creates an empty pool, which calls `thaw` with each server that comes back.
    pub const fn new(thaw: fn(&S)) -> Self {
        Self {
            thaw,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Lends an idle server, or a new server from `start` if none is idle.
    ///
    /// A server still has the data of earlier tests.
    ///
    /// # Panics
    ///
    /// If `start` panics.
    pub fn lend(&'static self, start: impl FnOnce() -> S) -> Spare<S> {
        let idle = self.idle().pop();
        Spare {
            server: Some(idle.unwrap_or_else(start)),
            spares: self,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<S>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Deref for Spare<S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.server
            .as_ref()
            .expect("it is there until it is dropped")
    }
}

impl<S> Drop for Spare<S> {
    fn drop(&mut self) {
        if let Some(server) = self.server.take().filter(|_| !thread::panicking()) {
            (self.spares.thaw)(&server);
            self.spares.idle().push(server);
        }
    }
}

impl<S> fmt::Debug for Spares<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spares")
            .field("idle", &self.idle().len())
            .finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for Spare<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static STARTED: AtomicU32 = AtomicU32::new(0);
    static SPARES: Spares<AtomicU32> = Spares::new(|thawed| {
        thawed.fetch_add(100, Ordering::Relaxed);
    });

    fn lend() -> Spare<AtomicU32> {
        SPARES.lend(|| AtomicU32::new(STARTED.fetch_add(1, Ordering::Relaxed)))
    }

    #[test]
    fn a_server_is_lent_to_one_at_a_time_and_thawed_when_it_comes_back() {
        let (first, second) = (lend(), lend());
        let number = |server: &AtomicU32| server.load(Ordering::Relaxed);
        assert_eq!((number(&first), number(&second)), (0, 1));
        drop(first);
        assert_eq!(number(&lend()), 100);
        let failed = thread::spawn(move || {
            let _lent = second;
            panic!("as a test that fails");
        });
        failed.join().unwrap_err();
        assert_eq!(number(&lend()), 200, "the one of the failed test is gone");
        assert_eq!(STARTED.load(Ordering::Relaxed), 2);
    }
}
