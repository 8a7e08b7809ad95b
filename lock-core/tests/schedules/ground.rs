//! The store under the locks: the simulated server with its network, or the memory backend's store.

use std::fmt::Debug;

use lock_core::{LockKey, MemoryLock};

use crate::clock::Time;
use crate::network::Network;
use crate::server::End;

/// A store, as the world and its observer see it.
pub(crate) trait Ground: Debug + Send + Sync {
    /// Moves time to `now`. Returns the numbers of the processes at which a message arrived.
    fn deliver(&self, _now: Time) -> Vec<usize> {
        Vec::new()
    }

    /// Returns the time of the next arrival.
    fn next_arrival(&self) -> Option<Time> {
        None
    }

    /// Returns true if the store knows how its grants ended.
    fn knows_ends(&self) -> bool {
        false
    }

    /// Returns when a grant was made, if the store knows.
    fn granted_at(&self, _grant: u64) -> Option<Time> {
        None
    }

    /// Returns how a grant ended on the store, if the store knows.
    fn end_of(&self, _grant: u64) -> Option<End> {
        None
    }

    /// Returns true if a renewal of this grant got less than the requested ttl.
    fn was_shortened(&self, _grant: u64) -> bool {
        false
    }

    /// Removes the key, as an operator does.
    fn remove(&self, key: &LockKey);

    /// Returns the keys that are still held.
    fn residue(&self) -> Vec<String>;
}

impl Ground for Network {
    fn deliver(&self, now: Time) -> Vec<usize> {
        self.deliver(now)
    }

    fn next_arrival(&self) -> Option<Time> {
        self.next_arrival()
    }

    fn knows_ends(&self) -> bool {
        true
    }

    fn granted_at(&self, grant: u64) -> Option<Time> {
        Some(self.server(|server| server.granted_at(grant)))
    }

    fn end_of(&self, grant: u64) -> Option<End> {
        self.server(|server| server.end_of(grant))
    }

    fn was_shortened(&self, grant: u64) -> bool {
        self.server(|server| server.was_shortened(grant))
    }

    fn remove(&self, key: &LockKey) {
        self.remove(key);
    }

    fn residue(&self) -> Vec<String> {
        self.server(|server| server.residue())
    }
}

impl Ground for MemoryLock {
    fn remove(&self, key: &LockKey) {
        self.evict(key);
    }

    fn residue(&self) -> Vec<String> {
        self.claims()
    }
}
