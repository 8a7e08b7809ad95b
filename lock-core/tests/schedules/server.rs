//! The store of the simulated world: a server that grants leases by its own clock.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lock_core::LockKey;
use lock_core::backend::{ClaimId, HoldId};

use crate::clock::Time;

/// A server with one holder per key, each until its expiry.
#[derive(Debug, Default)]
pub(crate) struct Server {
    holders: HashMap<LockKey, Holder>,
    /// The ends of all grants. The first grant has number 1.
    ends: Vec<Option<End>>,
    /// The times of all grants.
    times: Vec<Time>,
    /// Grants with a renewal of less than the requested ttl.
    shortened: HashSet<u64>,
}

#[derive(Debug)]
struct Holder {
    owner: ClaimId,
    grant: u64,
    expires: Time,
}

/// The end of a grant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Released,
    Expired,
    Removed,
}

impl Server {
    /// Grants the key to `hold`. A take that arrives again extends its own lease.
    pub(crate) fn take(&mut self, hold: &HoldId, now: Time) -> Option<u64> {
        self.expire(now);
        let expires = now + hold.store_ttl();
        if let Some(holder) = self.holders.get_mut(hold.key()) {
            if holder.owner != hold.claim() {
                return None;
            }
            holder.expires = expires;
            return Some(holder.grant);
        }
        self.ends.push(None);
        self.times.push(now);
        let grant = self.ends.len() as u64;
        let holder = Holder {
            owner: hold.claim(),
            grant,
            expires,
        };
        self.holders.insert(hold.key().clone(), holder);
        Some(grant)
    }

    /// Extends the lease by `ttl`, if `hold` has it.
    pub(crate) fn renew(&mut self, hold: &HoldId, ttl: Duration, now: Time) -> bool {
        self.expire(now);
        match self.holders.get_mut(hold.key()) {
            Some(holder) if holder.owner == hold.claim() => {
                holder.expires = now + ttl;
                if ttl < hold.store_ttl() {
                    self.shortened.insert(holder.grant);
                }
                true
            }
            Some(_) | None => false,
        }
    }

    /// Lets the hold expire after `left`, if `hold` has the key.
    pub(crate) fn shorten(&mut self, hold: &HoldId, left: Duration, now: Time) -> bool {
        self.expire(now);
        let holder = self.holders.get_mut(hold.key());
        let holder = holder.filter(|holder| holder.owner == hold.claim());
        let held = holder.map(|holder| holder.expires = now + left);
        held.is_some()
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

    /// Removes the key, as an operator does.
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

    pub(crate) fn granted_at(&self, grant: u64) -> Time {
        self.times[grant as usize - 1]
    }

    /// Returns how a grant ended, if it has ended.
    pub(crate) fn end_of(&self, grant: u64) -> Option<End> {
        self.ends[grant as usize - 1]
    }

    /// Returns true if a renewal of this grant got less than the requested ttl.
    pub(crate) fn was_shortened(&self, grant: u64) -> bool {
        self.shortened.contains(&grant)
    }

    pub(crate) fn ends(&self) -> &[Option<End>] {
        &self.ends
    }

    /// Returns the held keys.
    pub(crate) fn residue(&self) -> Vec<String> {
        self.holders.keys().map(ToString::to_string).collect()
    }
}
