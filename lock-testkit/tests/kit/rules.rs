//! The state of the shelf, and its rules: correct or with a fault.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use lock_core::backend::{Clock, HoldId, Moment, Released};
use lock_core::{KeyInfo, Mode};

use crate::admission::admits;
use crate::fault::Fault;

pub(crate) const CLOCK: Clock = Clock::Boot;

/// The queues of claims per key. A claim holds the key if no earlier claim blocks it.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) fault: Fault,
    pub(crate) queues: BTreeMap<String, Vec<Entry>>,
    grants: BTreeMap<String, u64>,
    /// The client and the time of the last grant.
    last: Option<(u64, Moment)>,
    /// The claim ids of the releases that have begun.
    begun: HashSet<String>,
    pub(crate) converted: HashSet<String>,
    /// What the last inspection of each key found.
    pub(crate) seen: BTreeMap<String, KeyInfo>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: HoldId,
    /// What the holder's client has stored about the holder.
    pub(crate) metadata: String,
    pub(crate) client: u64,
    arrival: u64,
    pub(crate) grant: Option<Grant>,
    pub(crate) expires: Moment,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) number: u64,
    pub(crate) at: Moment,
    pub(crate) slot: Option<u32>,
}

#[derive(Debug)]
pub(crate) enum Standing {
    Granted(Grant),
    /// The claim is in the queue; contains the time at which the first hold expires.
    Waiting(Moment),
    Absent,
}

impl Rules {
    pub(crate) fn new(fault: Fault) -> Self {
        Self {
            fault,
            queues: BTreeMap::new(),
            grants: BTreeMap::new(),
            last: None,
            begun: HashSet::new(),
            converted: HashSet::new(),
            seen: BTreeMap::new(),
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    pub(crate) fn place(&self, id: &HoldId) -> String {
        let key = id.key().as_str();
        match self.fault {
            Fault::OneLockForAll => String::new(),
            Fault::FoldsNames => key.to_lowercase().trim_end().to_owned(),
            Fault::LosesOddNames if key.contains(char::is_control) => format!("{}", id.claim()),
            _ => key.to_owned(),
        }
    }

    /// Adds a claim to the queue. A claim that is not granted stays only if it `waits`.
    pub(crate) fn take(&mut self, id: &HoldId, client: u64, waits: bool) -> Standing {
        let (place, now) = (self.place(id), CLOCK.now());
        let arrival = self.next_number("arrivals".into());
        let queue = self.queues.entry(place.clone()).or_default();
        let holders = queue.iter().filter(|entry| entry.grant.is_some());
        let first = match self.fault {
            Fault::LastComesFirst | Fault::TokensOfArrival => true,
            Fault::FavoursTheHolder => self.last.is_some_and(|last| last.0 == client),
            _ => false,
        };
        let index = if first { holders.count() } else { queue.len() };
        let entry = Entry {
            id: id.clone(),
            metadata: id.metadata(),
            client,
            arrival,
            grant: None,
            expires: now,
        };
        queue.insert(index, entry);
        self.settle(&place);
        let standing = self.look(id);
        if !waits && !matches!(standing, Standing::Granted(_)) {
            self.remove(&place, |entry| entry.id.claim() == id.claim());
            return Standing::Absent;
        }
        standing
    }

    pub(crate) fn look(&mut self, id: &HoldId) -> Standing {
        let place = self.place(id);
        self.settle(&place);
        let queue = self.queues.get(&place).map_or(&[][..], Vec::as_slice);
        match queue.iter().find(|entry| entry.id.claim() == id.claim()) {
            Some(Entry {
                grant: Some(grant), ..
            }) => Standing::Granted(*grant),
            Some(_) => {
                let holders = queue.iter().filter(|entry| entry.grant.is_some());
                Standing::Waiting(
                    holders
                        .map(|holder| holder.expires)
                        .min()
                        .unwrap_or(CLOCK.now()),
                )
            }
            None => Standing::Absent,
        }
    }

    /// Extends a hold; returns true if the hold is on the store.
    pub(crate) fn renew(&mut self, id: &HoldId, resurrect: bool) -> bool {
        let place = self.place(id);
        self.settle(&place);
        let mut expires = self.expiry(id, CLOCK.now());
        if self.is(Fault::RenewsForLess) {
            expires = CLOCK.now().plus(id.store_ttl() * 2 / 5);
        }
        let fault = self.fault;
        let queue = self.queues.entry(place.clone()).or_default();
        match queue
            .iter_mut()
            .find(|entry| entry.id.claim() == id.claim())
        {
            Some(_) if fault == Fault::RenewalProlongsAll => {
                queue.iter_mut().for_each(|entry| entry.expires = expires);
            }
            Some(entry) => entry.expires = expires,
            None if resurrect => {
                self.take(id, 0, true);
            }
            None => {
                self.forget_empty(&place);
                return self.is(Fault::IgnoresLosses);
            }
        }
        true
    }

    /// Lets a hold end after `left`; returns true if the hold is on the store.
    pub(crate) fn shorten(&mut self, id: &HoldId, left: Duration) -> bool {
        let place = self.place(id);
        self.settle(&place);
        let queue = self.queues.get_mut(&place).into_iter().flatten();
        let mut entries = queue.filter(|entry| entry.id.claim() == id.claim());
        let entry = entries.next();
        let is_kept = self.fault == Fault::KeepsBeyondTheMinimum;
        entry
            .map(|entry| {
                if !is_kept {
                    entry.expires = CLOCK.now().plus(left);
                }
            })
            .is_some()
    }

    pub(crate) fn release(&mut self, id: &HoldId) -> Released {
        let place = self.place(id);
        self.settle(&place);
        let mode = id.mode();
        let fault = self.fault;
        let before = self.queues.get(&place).map_or(0, Vec::len);
        if fault == Fault::LosesPermits
            && mode != Mode::Exclusive
            && mode != Mode::Shared
            && before > 1
        {
            return Released::Released;
        }
        if fault == Fault::DelaysWhatIsReleased && id.lock_delay() > Duration::ZERO {
            return Released::Released;
        }
        if fault == Fault::KeepsBeyondTheMinimum && id.min_hold() > Duration::ZERO {
            return Released::Released;
        }
        let removed = self.remove(&place, |entry| match fault {
            Fault::FreesWhoeverHolds => entry.grant.is_some(),
            Fault::ReadersLeaveTogether if mode == Mode::Shared => entry.id.mode() == mode,
            _ => entry.id.claim() == id.claim(),
        });
        if fault == Fault::RemembersKeys {
            self.queues.entry(place).or_default();
        }
        if removed {
            Released::Released
        } else {
            Released::AlreadyLost
        }
    }

    /// Removes a claim from its queue, unless the claim was granted.
    pub(crate) fn leave(&mut self, id: &HoldId) {
        let place = self.place(id);
        self.remove(&place, |entry| {
            entry.id.claim() == id.claim() && entry.grant.is_none()
        });
    }

    /// Notes that a release has begun; returns true if it had begun before.
    pub(crate) fn begin_release(&mut self, id: &HoldId) -> bool {
        !self.begun.insert(id.claim().to_string())
    }

    /// Removes the holds of a key, as an operator does.
    pub(crate) fn evict(&mut self, key: &str) -> bool {
        if self.is(Fault::TokensForgetRemoval) {
            self.grants.clear();
        }
        self.remove(key, |entry| entry.grant.is_some())
    }

    pub(crate) fn residue(&self) -> Vec<String> {
        let mut residue = Vec::new();
        for (place, queue) in &self.queues {
            residue.extend(
                queue
                    .iter()
                    .map(|entry| format!("{place} {}", entry.id.claim())),
            );
            if queue.is_empty() {
                residue.push(place.clone());
            }
        }
        residue
    }

    fn remove(&mut self, place: &str, matches: impl Fn(&Entry) -> bool) -> bool {
        let Some(queue) = self.queues.get_mut(place) else {
            return false;
        };
        let before = queue.len();
        queue.retain(|entry| !matches(entry));
        let removed = queue.len() < before;
        self.settle(place);
        self.forget_empty(place);
        removed
    }

    fn forget_empty(&mut self, place: &str) {
        if self.queues.get(place).is_some_and(Vec::is_empty) {
            self.queues.remove(place);
        }
    }

    /// Drops expired holds, then grants all claims that may hold the key.
    pub(crate) fn settle(&mut self, place: &str) {
        let now = CLOCK.now();
        let Some(mut queue) = self.queues.remove(place) else {
            return;
        };
        self.expire(&mut queue, now);
        for index in 0..queue.len() {
            if self.keeps_for_favourite(queue[index].client, now) {
                continue;
            }
            if queue[index].grant.is_none() && admits(self.fault, &queue, index) {
                let number = self.grant_number(&queue[index]);
                self.last = Some((queue[index].client, now));
                let expires = self.expiry(&queue[index].id, now);
                let slot = self.slot(&queue, index);
                let entry = &mut queue[index];
                entry.grant = Some(Grant {
                    number,
                    at: now,
                    slot,
                });
                entry.expires = expires;
            }
        }
        self.queues.insert(place.to_owned(), queue);
        self.forget_empty(place);
    }

    pub(crate) fn expiry(&self, id: &HoldId, now: Moment) -> Moment {
        match self.fault {
            Fault::ForgetsTheDelay => now.plus(id.ttl()),
            _ => now.plus(id.store_ttl()),
        }
    }

    fn keeps_for_favourite(&self, client: u64, now: Moment) -> bool {
        let given = Duration::from_millis(300);
        let last = self.last.filter(|last| last.0 != client);
        self.is(Fault::FavoursTheHolder) && last.is_some_and(|last| now < last.1.plus(given))
    }

    fn expire(&mut self, queue: &mut Vec<Entry>, now: Moment) {
        let expired = |entry: &Entry| entry.grant.is_some() && entry.expires <= now;
        let Some(first) = queue.iter().find(|entry| expired(entry)).cloned() else {
            return;
        };
        match self.fault {
            Fault::NeverExpires | Fault::ReleasesOnlyWhenAsked => return,
            Fault::ReadersExpireTogether if first.id.mode() == Mode::Shared => {
                queue.retain(|entry| entry.id.mode() != Mode::Shared);
            }
            Fault::TokensForgetExpiry => self.grants.clear(),
            _ => {}
        }
        queue.retain(|entry| !expired(entry));
    }

    fn grant_number(&mut self, entry: &Entry) -> u64 {
        match self.fault {
            Fault::TokensStandStill => 1,
            Fault::TokensOfArrival => entry.arrival,
            Fault::TokensOfClient => self.next_number(format!("grants of {}", entry.client)),
            Fault::TokensOfMode => self.next_number(format!("grants of {:?}", entry.id.mode())),
            _ => self.next_number("grants".into()),
        }
    }

    pub(crate) fn next_number(&mut self, counter: String) -> u64 {
        let number = self.grants.entry(counter).or_default();
        *number += 1;
        *number
    }
}
