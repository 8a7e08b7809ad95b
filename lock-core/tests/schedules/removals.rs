//! The observer's record of keys that an operator removed.

use lock_core::LockKey;

use crate::book::{Book, Grant, Removal};
use crate::clock::Time;
use crate::held;
use crate::observer::Observer;
use crate::server::End;

impl Observer {
    /// Returns the time by which the holder must learn of a removal, if the hold was removed.
    pub(crate) fn removal_of(&self, book: &Book, grant: &Grant) -> Option<Time> {
        let knows = self.ground.knows_ends();
        if knows && self.ground.end_of(grant.number) != Some(End::Removed) {
            return None;
        }
        let concerns = |removal: &&Removal| {
            removal.key == grant.key && (knows || grant.number <= removal.last)
        };
        let removals = book.removals.iter().filter(concerns);
        // A renewal starts at a third of the ttl, and its answer takes little longer.
        removals.map(|removal| removal.at + grant.ttl * 2 / 3).max()
    }

    /// Notes that an operator has removed `key`. The holders learn of it at their next renewal.
    pub(crate) fn is_removed(&self, key: &LockKey) {
        let mut book = held(&self.book);
        let at = book.now;
        let served = book.served.iter().filter(|(of, ..)| of == key);
        let last = served.map(|(_, _, token)| token >> 14).max();
        book.removals.push(Removal {
            key: key.clone(),
            last: last.unwrap_or(0),
            at,
        });
        book.tell(format!("{key} is removed"));
    }

    /// Returns true if the key of the grant was removed at any time, since an operator frees a key
    /// at once.
    pub(crate) fn was_removed(&self, book: &Book, grant: &Grant) -> bool {
        book.removals.iter().any(|removal| removal.key == grant.key)
    }
}
