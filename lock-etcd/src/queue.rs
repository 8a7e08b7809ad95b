//! The claims on one key, in the order of their creation.

use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, ResponseHeader, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};
use lock_core::backend::{WrittenSlot, blocking_claim, holders};
use lock_core::{Error, ErrorKind, Mode, Result};

use crate::claim::value::ClaimValue;
use crate::error::{BACKEND, unexpected};
use crate::keys::end_of;

/// The claims on a key at one moment: a claim of this client, and the claims before it.
#[derive(Default)]
pub(crate) struct QueueSnapshot {
    /// The revision of this state.
    pub(crate) revision: i64,
    claims: Vec<ListedClaim>,
    /// The index of the client's own claim.
    own: Option<usize>,
    /// True if the answer leaves claims out.
    pub(crate) is_partial: bool,
}

/// One claim on a key.
pub(crate) struct ListedClaim {
    pub(crate) key: Vec<u8>,
    pub(crate) mode: Mode,
    /// The claim that the hold has had since its last change of mode.
    pub(crate) converted: Option<Box<str>>,
    /// The slot that a permit has written.
    pub(crate) slot: Option<u32>,
    pub(crate) created: i64,
    /// The revision of its last change.
    pub(crate) modified: i64,
    lease: i64,
}

/// The event that lets a waiter proceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blocker {
    /// This claim is deleted: its key, and its create revision.
    One(Vec<u8>, i64),
    /// Any of the earlier claims is deleted.
    Any,
}

impl QueueSnapshot {
    /// Reads the answers of a transaction that list the claims of `queue`. `own` is the key of the
    /// client's own claim.
    pub(crate) fn read(answer: &TxnResponse, queue: &str, own: &str) -> Result<Self> {
        let revision = revision(answer)?;
        let (mut claims, mut is_partial, mut is_list) = (Vec::new(), false, false);
        for outcome in answer.op_responses() {
            let TxnOpResponse::Get(list) = outcome else {
                continue;
            };
            is_list = true;
            is_partial |= list.more();
            let found = list.kvs().iter();
            claims.extend(found.filter_map(|found| ListedClaim::read(found, queue.as_bytes())));
        }
        if !is_list {
            return Err(unexpected("no list of claims"));
        }
        claims.sort_unstable_by_key(|claim| claim.created);
        // Both lists may contain the client's own claim.
        claims.dedup_by(|one, other| one.created == other.created && one.key == other.key);
        let own = claims.iter().position(|claim| claim.key == own.as_bytes());
        if let Some(own) = own {
            claims.truncate(own + 1);
        }
        Ok(Self {
            revision,
            claims,
            own,
            is_partial,
        })
    }

    /// Returns the create revision of the client's own claim, if it is there.
    pub(crate) fn created(&self) -> Option<i64> {
        self.own.map(|own| self.claims[own].created)
    }

    /// Returns the lease of the client's own claim, if it is there.
    pub(crate) fn lease(&self) -> Option<i64> {
        self.own.map(|own| self.claims[own].lease)
    }

    /// Returns true if the client's own claim is there and holds the key.
    pub(crate) fn is_ours(&self) -> bool {
        let is_let_in = |own| blocking_claim(&self.modes(), own).is_none();
        !self.is_partial && self.own.is_some_and(is_let_in)
    }

    /// Returns true if a new claim in `mode` would hold the key. If claims were left out, it might
    /// not.
    pub(crate) fn may_admit(&self, mode: Mode) -> bool {
        let mut modes = self.modes();
        modes.push(mode);
        blocking_claim(&modes, modes.len() - 1).is_none()
    }

    /// Returns the blocker of the claim with this create revision; `None` if it holds the key or is
    /// gone.
    pub(crate) fn blocker_of(&self, created: i64) -> Option<Blocker> {
        let own = self.claims.iter().position(|one| one.created == created)?;
        let modes = self.modes();
        let before = blocking_claim(&modes, own)?;
        let is_permit = matches!(modes[own], Mode::Permit { .. });
        Some(if is_permit && !modes[own].conflicts_with(modes[before]) {
            Blocker::Any
        } else {
            let before = &self.claims[before];
            Blocker::One(before.key.clone(), before.created)
        })
    }

    /// Returns the claims that hold the key: their create revisions and keys.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (i64, &[u8])> {
        let holders = holders(self.claims.iter().map(|claim| claim.mode));
        let holders = self.claims[..holders].iter();
        holders.map(|claim| (claim.created, claim.key.as_slice()))
    }

    pub(crate) fn has(&self, created: i64) -> bool {
        self.claim(created).is_some()
    }

    /// Returns the claim with this create revision.
    pub(crate) fn claim(&self, created: i64) -> Option<&ListedClaim> {
        self.index(created).map(|index| &self.claims[index])
    }

    /// Returns the index of the claim with this create revision, in the order of creation.
    pub(crate) fn index(&self, created: i64) -> Option<usize> {
        let found = self
            .claims
            .binary_search_by_key(&created, |one| one.created);
        found.ok()
    }

    /// Returns the slots that the claims have written, in the order of their creation.
    pub(crate) fn slots(&self) -> Vec<Option<WrittenSlot>> {
        let slot = |claim: &ListedClaim| {
            let written = claim.modified;
            claim.slot.map(|slot| WrittenSlot { slot, written })
        };
        self.claims.iter().map(slot).collect()
    }

    /// Returns the first claim that does not hold the key.
    pub(crate) fn first_waiter(&self) -> Option<&ListedClaim> {
        self.claims.get(self.holders().count())
    }

    /// Returns true if the claim with this create revision has written this slot, and no other claim
    /// has. Which of two wrote it first is not known: a move to another lease changes a key, too.
    pub(crate) fn has_slot_alone(&self, created: i64, slot: u32) -> bool {
        let mut with_slot = self.claims.iter().filter(|claim| claim.slot == Some(slot));
        with_slot.next().is_some_and(|one| one.created == created) && with_slot.next().is_none()
    }

    /// Returns these claims with another mode of the claim with this create revision.
    pub(crate) fn with_mode(mut self, created: i64, mode: Mode) -> Self {
        if let Some(index) = self.index(created) {
            self.claims[index].mode = mode;
        }
        self
    }

    /// Returns true if a claim is upgradeable. Its holder may become exclusive, and then admits none
    /// of the later claims that it admitted before.
    pub(crate) fn has_upgradeable(&self) -> bool {
        let mut modes = self.claims.iter().map(|claim| claim.mode);
        modes.any(|mode| mode == Mode::Upgradeable)
    }

    /// Removes a claim that was deleted in the revision `gone`, but no later claim with the same
    /// key. Returns true if it was known.
    pub(crate) fn remove(&mut self, key: &[u8], gone: i64) -> bool {
        let is_it = |claim: &ListedClaim| claim.key == key && claim.created < gone;
        let index = self.claims.iter().position(is_it);
        index.map(|index| self.claims.remove(index)).is_some()
    }

    /// Checks that all claims before this create revision have a lease. A waiter might wait forever
    /// for a claim without a lease.
    pub(crate) fn check_ends(&self, created: i64) -> Result<()> {
        let endless = |claim: &&ListedClaim| claim.lease == 0 && claim.created < created;
        match self.claims.iter().find(endless) {
            Some(claim) => Err(never_ends(&claim.key)),
            None => Ok(()),
        }
    }

    fn modes(&self) -> Vec<Mode> {
        self.claims.iter().map(|claim| claim.mode).collect()
    }
}

fn never_ends(key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::new(
        ErrorKind::Backend,
        format!("the key {key:?} is a claim on the lock without a lease, so it never ends: delete it, or use another key or namespace"),
    )
    .with_backend(BACKEND)
}

/// Builds the transaction that lists all claims of `queue`, among them the key `own`. It may write,
/// so all members agree on the answer.
pub(crate) fn list_all(queue: &str, own: &str) -> Txn {
    let list = GetOptions::new().with_range(end_of(queue));
    Txn::new()
        .when([Compare::create_revision(own, CompareOp::Less, 0)])
        .and_then([TxnOp::delete(own, None)])
        .or_else([TxnOp::get(queue, Some(list))])
}

/// Returns the revision of a transaction's answer.
pub(crate) fn revision(answer: &TxnResponse) -> Result<i64> {
    let revision = answer.header().map(ResponseHeader::revision);
    revision.ok_or_else(|| unexpected("no revision"))
}

impl ListedClaim {
    /// Reads a claim, which is directly below the queue's prefix. Keys further below belong to
    /// other locks.
    pub(crate) fn read(found: &KeyValue, queue: &[u8]) -> Option<Self> {
        let name = found.key().strip_prefix(queue)?;
        if name.is_empty() || name.contains(&b'/') {
            return None;
        }
        let value = ClaimValue::read(name, found.value());
        Some(Self {
            key: found.key().to_vec(),
            mode: value.mode,
            converted: value.converted.map(Into::into),
            slot: value.slot,
            created: found.create_revision(),
            modified: found.mod_revision(),
            lease: found.lease(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader waits for the first of two upgradeable claims, also for a change of its mode.
    #[test]
    fn a_reader_waits_for_one_claim() {
        let modes = [Mode::Upgradeable, Mode::Upgradeable, Mode::Shared];
        let claims = [(1, "a", modes[0]), (2, "b", modes[1]), (3, "c", modes[2])];
        let queue = QueueSnapshot::of(3, &claims);
        assert_eq!(queue.blocker_of(3), Some(Blocker::One(b"a".to_vec(), 1)));
        assert_eq!(queue.with_mode(1, Mode::Shared).blocker_of(3), None);
    }

    impl QueueSnapshot {
        /// Makes a queue of claims in this revision, from their create revisions, keys and modes.
        pub(crate) fn of(revision: i64, claims: &[(i64, &str, Mode)]) -> Self {
            let claim = |(created, key, mode): &(i64, &str, Mode)| ListedClaim {
                key: key.as_bytes().to_vec(),
                mode: *mode,
                converted: None,
                slot: None,
                created: *created,
                modified: *created,
                lease: 1,
            };
            Self {
                revision,
                claims: claims.iter().map(claim).collect(),
                ..Self::default()
            }
        }
    }
}
