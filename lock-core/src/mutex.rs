//! A mutex that ignores poisoning.

use std::fmt;
use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A [`std::sync::Mutex`] that can still be locked after a thread panicked while holding it.
///
/// For critical sections that keep their data consistent at each step, so that a panic leaves
/// nothing half done.
///
/// ```
/// use lock_core::backend::Mutex;
///
/// let counter = Mutex::new(1);
/// *counter.lock() += 1;
/// assert_eq!(*counter.lock(), 2);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, blocking the thread until it is free.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(locked) => Some(locked),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_poisons_nothing() {
        let mutex = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut value = mutex.lock();
            *value = 2;
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 2);
        assert!(mutex.try_lock().is_some());
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(held);
    }
}
