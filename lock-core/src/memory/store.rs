//! The store of [`MemoryLock`](super::MemoryLock): a queue of claims for each key.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::fair_queue::holders;
use crate::backend::{ClaimId, Clock, Converted, HoldId, Moment, Released, Renewal, StoreGrant};
use crate::mutex::Mutex;
use crate::{FencingToken, HolderInfo, KeyInfo, LockKey, LossReason, Mode, Result};

pub(super) const CLOCK: Clock = Clock::Runtime;

/// Number of grants of all stores. It is global so that tokens grow beyond the end of an unused
/// store.
static GRANTS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Default)]
pub(super) struct Store {
    state: Mutex<MemoryQueues>,
}

#[derive(Debug, Default)]
struct MemoryQueues {
    queues: HashMap<LockKey, Vec<MemoryClaim>>,
}

/// A claim in the queue of its key, holder or waiter.
#[derive(Debug)]
struct MemoryClaim {
    id: HoldId,
    granted: Option<Grant>,
    /// The description of the holder, from its grant on.
    metadata: String,
    expires: Moment,
    changed: Arc<Notify>,
}

/// The number and time of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) number: u64,
    pub(super) at: Moment,
    /// The slot of a permit.
    pub(super) slot: Option<u32>,
}

/// The position of a claim in its queue.
#[derive(Debug)]
pub(super) enum ClaimPosition {
    Granted(Grant),
    /// In the queue; `look_again` is when the first holder expires.
    Waiting {
        changed: Arc<Notify>,
        look_again: Option<Moment>,
    },
    /// Not in the queue.
    Absent,
}

impl Store {
    /// Returns the store of `namespace`, which exists while a client uses it.
    pub(super) fn shared(namespace: &str) -> Arc<Self> {
        static STORES: Mutex<Option<HashMap<String, Weak<Store>>>> = Mutex::new(None);

        let mut stores = STORES.lock();
        let stores = stores.get_or_insert_default();
        if let Some(store) = stores.get(namespace).and_then(Weak::upgrade) {
            return store;
        }
        stores.retain(|_, store| store.strong_count() > 0);
        let store = Arc::new(Self::default());
        stores.insert(namespace.to_owned(), Arc::downgrade(&store));
        store
    }

    /// Adds a claim at the end of its key's queue.
    pub(super) fn enter(&self, id: &HoldId) -> ClaimPosition {
        self.state.lock().enter(id, CLOCK.now())
    }

    /// Grants all claims, which are exclusive, if no other claim is on their keys.
    pub(super) fn enter_together(&self, ids: &[HoldId]) -> Option<Vec<StoreGrant>> {
        let now = CLOCK.now();
        let mut state = self.state.lock();
        for id in ids {
            state.settle(id.key(), now);
        }
        let is_free = |id: &HoldId| state.queues.get(id.key()).is_none_or(Vec::is_empty);
        if !ids.iter().all(is_free) {
            return None;
        }
        let granted = ids.iter().map(|id| match state.enter(id, now) {
            ClaimPosition::Granted(grant) => Some(StoreGrant {
                grant: grant.number,
                sent: grant.at,
                ttl: id.store_ttl(),
            }),
            ClaimPosition::Waiting { .. } | ClaimPosition::Absent => None,
        });
        granted.collect()
    }

    /// Returns the present position of a claim.
    pub(super) fn look(&self, id: &HoldId) -> ClaimPosition {
        let mut state = self.state.lock();
        state.settle(id.key(), CLOCK.now());
        state.position(id)
    }

    pub(super) fn renew(&self, id: &HoldId) -> Renewal {
        let now = CLOCK.now();
        let mut state = self.state.lock();
        state.settle(id.key(), now);
        match state.entry_mut(id) {
            Some(entry) if entry.granted.is_some() => {
                entry.expires = now.plus(id.store_ttl());
                Renewal::Held {
                    sent: now,
                    ttl: id.store_ttl(),
                }
            }
            Some(_) | None => Renewal::Lost(LossReason::Removed),
        }
    }

    /// Lets a holder expire after `left`.
    pub(super) fn shorten(&self, id: &HoldId, left: Duration) -> Released {
        let now = CLOCK.now();
        let mut state = self.state.lock();
        state.settle(id.key(), now);
        let Some(entry) = state.entry_mut(id) else {
            return Released::AlreadyLost;
        };
        entry.expires = now.plus(left);
        Released::Released
    }

    /// Replaces the holder `from` by the claim `to`.
    pub(super) fn convert(&self, from: &HoldId, to: &HoldId) -> Result<Converted> {
        let now = CLOCK.now();
        let mut state = self.state.lock();
        state.settle(from.key(), now);
        let queue = state.queues.entry(from.key().clone()).or_default();
        let holders = queue.iter().filter(|claim| claim.granted.is_some());
        let is_alone = holders.count() == 1;
        let found = queue
            .iter_mut()
            .find(|claim| claim.id.claim() == from.claim() && claim.granted.is_some());
        let converted = match found {
            None => Converted::Lost,
            Some(_) if to.mode() == Mode::Exclusive && !is_alone => Converted::Refused,
            Some(claim) => {
                claim.id = to.clone();
                Converted::Granted {
                    token: FencingToken::from_grant(claim.grant(now, None))?,
                    ttl: to.store_ttl(),
                }
            }
        };
        state.settle(from.key(), now);
        Ok(converted)
    }

    pub(super) fn release(&self, id: &HoldId) -> Released {
        let now = CLOCK.now();
        let mut state = self.state.lock();
        state.settle(id.key(), now);
        let held = state
            .entry_mut(id)
            .is_some_and(|entry| entry.granted.is_some());
        state.remove(id.key(), |entry| entry.id.claim() == id.claim());
        state.settle(id.key(), now);
        if held {
            Released::Released
        } else {
            Released::AlreadyLost
        }
    }

    /// Removes the holders of `key`; the waiters keep their places.
    pub(super) fn evict(&self, key: &LockKey) -> bool {
        let mut state = self.state.lock();
        let removed = state.remove(key, |entry| entry.granted.is_some());
        state.settle(key, CLOCK.now());
        removed
    }

    /// Returns the holders of `key` and the number of its waiters.
    pub(super) fn inspect(&self, key: &LockKey) -> KeyInfo {
        let now = CLOCK.now();
        let mut state = self.state.lock();
        state.settle(key, now);
        let queue = state.queues.get(key).map_or(&[][..], Vec::as_slice);
        let holders: Vec<HolderInfo> = queue
            .iter()
            .filter_map(|entry| Some((entry, entry.granted?)))
            .map(|(entry, grant)| {
                HolderInfo::new()
                    .with_mode(entry.id.mode())
                    .with_metadata(&entry.metadata)
                    .with_grant(grant.number)
                    .with_ttl_left(entry.expires.since(now))
            })
            .collect();
        let waiters = queue.len() - holders.len();
        KeyInfo::new(holders).with_waiters(waiters)
    }

    /// Returns the ids of all claims, holders and waiters.
    pub(super) fn claims(&self) -> Vec<(LockKey, ClaimId)> {
        let state = self.state.lock();
        let entries = state.queues.values().flatten();
        entries
            .map(|entry| (entry.id.key().clone(), entry.id.claim()))
            .collect()
    }
}

impl MemoryClaim {
    /// Grants the claim, and returns the number of the grant.
    fn grant(&mut self, now: Moment, slot: Option<u32>) -> u64 {
        let number = GRANTS.fetch_add(1, Ordering::Relaxed) + 1;
        self.metadata = self.id.metadata();
        self.granted = Some(Grant {
            number,
            at: now,
            slot,
        });
        self.expires = now.plus(self.id.store_ttl());
        number
    }
}

/// Returns the lowest slot that no holder has. It is below the `of` of a permit that is granted,
/// since fewer than `of` permits are held.
fn free_slot(queue: &[MemoryClaim]) -> u32 {
    let slots = queue.iter().filter_map(|claim| claim.granted?.slot);
    let taken: HashSet<u32> = slots.collect();
    let mut slot = 0;
    while taken.contains(&slot) {
        slot += 1;
    }
    slot
}

impl MemoryQueues {
    fn enter(&mut self, id: &HoldId, now: Moment) -> ClaimPosition {
        let queue = self.queues.entry(id.key().clone()).or_default();
        queue.push(MemoryClaim {
            id: id.clone(),
            granted: None,
            metadata: String::new(),
            expires: now,
            changed: Arc::default(),
        });
        self.settle(id.key(), now);
        self.position(id)
    }

    /// Removes expired holders, then grants every claim that waits for no other.
    fn settle(&mut self, key: &LockKey, now: Moment) {
        self.remove(key, |entry| entry.granted.is_some() && entry.expires <= now);
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let holders = holders(queue.iter().map(|entry| entry.id.mode()));
        for place in 0..holders {
            if queue[place].granted.is_none() {
                let is_permit = matches!(queue[place].id.mode(), Mode::Permit { .. });
                let slot = is_permit.then(|| free_slot(queue));
                queue[place].grant(now, slot);
                queue[place].changed.notify_one();
            }
        }
    }

    fn position(&self, id: &HoldId) -> ClaimPosition {
        let Some(queue) = self.queues.get(id.key()) else {
            return ClaimPosition::Absent;
        };
        let Some(entry) = queue.iter().find(|entry| entry.id.claim() == id.claim()) else {
            return ClaimPosition::Absent;
        };
        match entry.granted {
            Some(grant) => ClaimPosition::Granted(grant),
            None => ClaimPosition::Waiting {
                changed: Arc::clone(&entry.changed),
                look_again: queue
                    .iter()
                    .filter(|entry| entry.granted.is_some())
                    .map(|entry| entry.expires)
                    .min(),
            },
        }
    }

    fn entry_mut(&mut self, id: &HoldId) -> Option<&mut MemoryClaim> {
        let queue = self.queues.get_mut(id.key())?;
        queue
            .iter_mut()
            .find(|entry| entry.id.claim() == id.claim())
    }

    /// Removes the claims that match; returns true if there was one. Drops the queue of a key
    /// without claims.
    fn remove(&mut self, key: &LockKey, matches: impl Fn(&MemoryClaim) -> bool) -> bool {
        let Some(queue) = self.queues.get_mut(key) else {
            return false;
        };
        let before = queue.len();
        queue.retain(|entry| !matches(entry));
        let removed = queue.len() < before;
        if queue.is_empty() {
            self.queues.remove(key);
        }
        removed
    }
}
