//! Which keys were held when somebody tried to take them without waiting.

use std::collections::HashSet;

use lock_core::{LockKey, Mutex};

/// The number of keys that are remembered.
const REMEMBERED: usize = 1024;

/// Keys that are looked at before a place in their line is taken.
///
/// A free key is taken without a question, by a node that is made before anybody looks. Whoever tries a
/// held key again and again would make and remove a node each time, which two writes of the whole
/// ensemble are; so a key that was refused is looked at first, until it was seen free.
#[derive(Debug, Default)]
pub(crate) struct Refused(Mutex<HashSet<LockKey>>);

impl Refused {
    pub(crate) fn has(&self, key: &LockKey) -> bool {
        self.0.lock().contains(key)
    }

    pub(crate) fn note(&self, key: &LockKey) {
        let mut keys = self.0.lock();
        if keys.len() >= REMEMBERED {
            keys.clear();
        }
        keys.insert(key.clone());
    }

    pub(crate) fn forget(&self, key: &LockKey) {
        self.0.lock().remove(key);
    }
}
