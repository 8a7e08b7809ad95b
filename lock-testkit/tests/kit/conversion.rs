//! Conversions of holds and slots of permits on the shelf, correct or with a fault.

use lock_core::backend::{Converted, HoldId};
use lock_core::{FencingToken, Mode};

use crate::fault::Fault;
use crate::rules::{CLOCK, Entry, Grant, Rules, Standing};

impl Rules {
    /// Returns the slot of the permit at `index`, which is granted now.
    pub(crate) fn slot(&mut self, queue: &[Entry], index: usize) -> Option<u32> {
        let Mode::Permit { .. } = queue[index].id.mode() else {
            return None;
        };
        let taken = |slot| {
            let mut slots = queue.iter().filter_map(|entry| entry.grant?.slot);
            slots.any(|other| other == slot)
        };
        match self.fault {
            Fault::SlotsRepeat => Some(0),
            Fault::SlotsGrow => Some(self.next_number("slots".into()) as u32 - 1),
            _ => (0..).find(|slot| !taken(*slot)),
        }
    }

    /// Replaces the hold `from` by the claim `to`.
    pub(crate) fn convert(&mut self, from: &HoldId, to: &HoldId, client: u64) -> Converted {
        let (place, now) = (self.place(from), CLOCK.now());
        self.settle(&place);
        match self.fault {
            Fault::ConvertsInTwoSteps => {
                self.release(from);
                return match self.take(to, client, true) {
                    Standing::Granted(grant) => granted(grant.number, to),
                    Standing::Waiting(_) | Standing::Absent => Converted::Lost,
                };
            }
            Fault::ConvertsWhatIsGone => return granted(self.next_number("grants".into()), to),
            _ => {}
        }
        let queue = self.queues.entry(place.clone()).or_default();
        let holders = queue.iter().filter(|entry| entry.grant.is_some());
        let others = holders.filter(|entry| entry.id.claim() != from.claim());
        let is_alone = others.count() == 0 || self.fault == Fault::UpgradesBesideReaders;
        let found = queue
            .iter_mut()
            .find(|entry| entry.id.claim() == from.claim() && entry.grant.is_some());
        let Some(entry) = found else {
            self.settle(&place);
            return Converted::Lost;
        };
        if to.mode() == Mode::Exclusive && !is_alone {
            return Converted::Refused;
        }
        let before = entry.grant.map_or(0, |grant| grant.number);
        let is_same = self.fault == Fault::DowngradeKeepsTheMode;
        entry.id = if is_same { from.clone() } else { to.clone() };
        let number = match self.fault {
            Fault::ConversionKeepsTheToken => before,
            _ => self.next_number("grants".into()),
        };
        let expires = self.expiry(to, now);
        let queue = self.queues.entry(place.clone()).or_default();
        let converted = [from.claim(), to.claim()];
        let entry = queue
            .iter_mut()
            .find(|entry| converted.contains(&entry.id.claim()));
        if let Some(entry) = entry {
            entry.grant = Some(Grant {
                number,
                at: now,
                slot: None,
            });
            entry.expires = expires;
        }
        self.converted.insert(to.claim().to_string());
        self.settle(&place);
        granted(number, to)
    }
}

fn granted(grant: u64, to: &HoldId) -> Converted {
    Converted::Granted {
        token: FencingToken::from_grant(grant).expect("a small number"),
        ttl: to.store_ttl(),
    }
}
