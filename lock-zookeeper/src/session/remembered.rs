//! A set that remembers a limited number of values.

use std::collections::HashSet;
use std::hash::Hash;

use lock_core::backend::Mutex;

/// The largest number of values. A further value makes the set forget all earlier values.
const REMEMBERED: usize = 1024;

/// A set of bounded size.
pub(crate) struct Remembered<T>(Mutex<HashSet<T>>);

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Mutex::new(HashSet::new()))
    }
}

impl<T: Eq + Hash> Remembered<T> {
    pub(crate) fn has(&self, value: &T) -> bool {
        self.0.lock().contains(value)
    }

    pub(crate) fn forget(&self, value: &T) {
        self.0.lock().remove(value);
    }

    /// Adds `value`. Returns true if it was new.
    pub(crate) fn add(&self, value: T) -> bool {
        let mut values = self.0.lock();
        if values.len() >= REMEMBERED {
            values.clear();
        }
        values.insert(value)
    }
}
