//! What the shelf shows of the holders of a key, correct or with a fault.

use lock_core::backend::HoldId;
use lock_core::{HolderInfo, KeyInfo, LockKey};

use crate::fault::Fault;
use crate::rules::{CLOCK, Entry, Rules};

impl Rules {
    /// Returns the present claims of a key, holders and waiters.
    pub(crate) fn entries(&mut self, key: &str) -> &[Entry] {
        self.settle(key);
        self.queues.get(key).map_or(&[][..], Vec::as_slice)
    }

    /// Replaces what is stored about the holder of a claim.
    pub(crate) fn describe(&mut self, id: &HoldId, metadata: &str) {
        let place = self.place(id);
        let queue = self.queues.get_mut(&place).into_iter().flatten();
        let of_claim = queue.filter(|entry| entry.id.claim() == id.claim());
        of_claim.for_each(|entry| metadata.clone_into(&mut entry.metadata));
    }
}

/// Reads the holders of `key`.
pub(crate) fn inspect(rules: &mut Rules, key: &LockKey) -> KeyInfo {
    let (fault, key) = (rules.fault, key.as_str());
    let entries = rules.entries(key);
    let shown: Vec<HolderInfo> = entries
        .iter()
        .filter(|entry| entry.grant.is_some() || fault == Fault::ShowsWaiters)
        .map(|entry| holder(entry, fault))
        .collect();
    let waiters = entries.iter().filter(|entry| entry.grant.is_none());
    let mut info = KeyInfo::new(shown).with_waiters(waiters.count());
    let before = rules.seen.get(key).cloned().unwrap_or_default();
    match fault {
        Fault::HidesHolders => info.holders.clear(),
        Fault::ShowsOneHolder => info.holders.truncate(1),
        Fault::ShowsFormerHolders if info.holders.is_empty() => info = before,
        Fault::ShowsTheFirstToken if !before.holders.is_empty() => {
            let token = before.holders[0].token;
            info.holders
                .iter_mut()
                .for_each(|holder| holder.token = token);
        }
        _ => {}
    }
    if !info.holders.is_empty() {
        rules.seen.insert(key.to_owned(), info.clone());
    }
    info
}

fn holder(entry: &Entry, fault: Fault) -> HolderInfo {
    let asks = entry.id.metadata();
    let metadata = match fault {
        Fault::ShowsWhoAsks => &asks,
        _ => &entry.metadata,
    };
    let mut holder = HolderInfo::new()
        .with_mode(entry.id.mode())
        .with_metadata(metadata)
        .with_ttl_left(entry.expires.since(CLOCK.now()));
    if fault == Fault::ForgetsTheLabel {
        holder.label = None;
    }
    match entry.grant {
        Some(grant) => holder.with_grant(grant.number),
        None => holder,
    }
}
