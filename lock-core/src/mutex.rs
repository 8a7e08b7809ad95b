//! Mutexes that a panicking task cannot poison for everybody else.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also after a panic of another holder.
///
/// Every critical section of this crate leaves its data whole at each step, so the data behind a
/// poisoned mutex is as good as any.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
