//! The store of the simulated world: a server that lends keys for a time by its own clock.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lock_core::LockKey;
use lock_core::backend::{ClaimId, HoldId};

use crate::clock::Time;

/// One holder a key, each until its expiry.
#[derive(Debug, Default)]
pub(crate) struct Server {
    holders: HashMap<LockKey, Holder>,
    /// How each grant ended. The first has the number 1.
    ends: Vec<Option<End>>,
    /// Grants that were renewed for less than was asked for.
    shortened: HashSet<u64>,
}

#[derive(Debug)]
struct Holder {
    owner: ClaimId,
    grant: u64,
    expires: Time,
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Released,
    Expired,
    Removed,
}

impl Server {
    /// Lends the key to `hold`, or lends it anew if it has it already: it was asked twice then.
    pub(crate) fn take(&mut self, hold: &HoldId, now: Time) -> Option<u64> {
        self.expire(now);
        let expires = now + hold.ttl();
        if let Some(holder) = self.holders.get_mut(hold.key()) {
            if holder.owner != hold.claim() {
                return None;
            }
            holder.expires = expires;
            return Some(holder.grant);
        }
        self.ends.push(None);
        let grant = self.ends.len() as u64;
        let holder = Holder {
            owner: hold.claim(),
            grant,
            expires,
        };
        self.holders.insert(hold.key().clone(), holder);
        Some(grant)
    }

    /// Lends the key for another `ttl`, if `hold` has it.
    pub(crate) fn renew(&mut self, hold: &HoldId, ttl: Duration, now: Time) -> bool {
        self.expire(now);
        match self.holders.get_mut(hold.key()) {
            Some(holder) if holder.owner == hold.claim() => {
                holder.expires = now + ttl;
                if ttl < hold.ttl() {
                    self.shortened.insert(holder.grant);
                }
                true
            }
            Some(_) | None => false,
        }
    }

    pub(crate) fn release(&mut self, hold: &HoldId, now: Time) -> bool {
        self.expire(now);
        let is_theirs = |holder: &Holder| holder.owner == hold.claim();
        let held = self.holders.get(hold.key()).is_some_and(is_theirs);
        if held {
            self.end(hold.key(), End::Released);
        }
        held
    }

    /// An operator deletes the key.
    pub(crate) fn remove(&mut self, key: &LockKey, now: Time) -> bool {
        self.expire(now);
        let held = self.holders.contains_key(key);
        self.end(key, End::Removed);
        held
    }

    pub(crate) fn expire(&mut self, now: Time) {
        let expired = self
            .holders
            .iter()
            .filter(|(_, holder)| holder.expires <= now);
        let expired: Vec<LockKey> = expired.map(|(key, _)| key.clone()).collect();
        for key in expired {
            self.end(&key, End::Expired);
        }
    }

    fn end(&mut self, key: &LockKey, end: End) {
        if let Some(holder) = self.holders.remove(key) {
            self.ends[holder.grant as usize - 1] = Some(end);
        }
    }

    /// How a grant ended, if it has.
    pub(crate) fn end_of(&self, grant: u64) -> Option<End> {
        self.ends[grant as usize - 1]
    }

    /// Whether a renewal has ever granted less than was asked for.
    pub(crate) fn was_shortened(&self, grant: u64) -> bool {
        self.shortened.contains(&grant)
    }

    pub(crate) fn ends(&self) -> &[Option<End>] {
        &self.ends
    }

    /// The keys that are held.
    pub(crate) fn residue(&self) -> Vec<String> {
        self.holders.keys().map(ToString::to_string).collect()
    }
}
