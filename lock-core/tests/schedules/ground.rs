//! What the locks under test stand on: the simulated server behind its network, or the memory backend's store.

use std::fmt::Debug;

use lock_core::{LockKey, MemoryLock};

use crate::clock::Time;
use crate::network::Network;
use crate::server::End;

/// A store, as the world and its observer see it.
pub(crate) trait Ground: Debug + Send + Sync {
    /// Time goes on to `now`; returns the numbers of the processes at which something arrived.
    fn deliver(&self, _now: Time) -> Vec<usize> {
        Vec::new()
    }

    /// When something arrives next.
    fn next_arrival(&self) -> Option<Time> {
        None
    }

    /// Whether the store can tell how its grants ended.
    fn knows_ends(&self) -> bool {
        false
    }

    /// How a grant ended on the store, as far as it is known.
    fn end_of(&self, _grant: u64) -> Option<End> {
        None
    }

    /// Whether a grant was ever renewed for less than was asked for.
    fn was_shortened(&self, _grant: u64) -> bool {
        false
    }

    /// An operator takes the key away from its holder.
    fn remove(&self, key: &LockKey);

    /// What is left on the store.
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
