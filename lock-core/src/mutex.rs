//! A mutex that a panicking task cannot poison for everybody else.

use std::fmt;
use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A [`std::sync::Mutex`] that is locked also after another holder has panicked.
///
/// For critical sections that leave their data whole at each step, so that what is behind a
/// poisoned mutex is as good as any.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Makes an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex; blocks the thread until it can be locked.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the mutex if it is unlocked.
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
