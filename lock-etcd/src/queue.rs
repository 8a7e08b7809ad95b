//! The claims on one key, in the order in which they came.

use etcd_client::{KeyValue, ResponseHeader, TxnOpResponse, TxnResponse};
use lock_core::{Error, ErrorKind, Mode, Result, blocking_claim, holders};

use crate::error::{BACKEND, unexpected};
use crate::keys::mode_of;

/// The claims on a key at one moment, as far as one of them is concerned: those before it, and itself.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// When this was so; what comes later has a greater revision.
    pub(crate) revision: i64,
    claims: Vec<Entry>,
    /// Where our own claim is.
    own: Option<usize>,
    /// True if there are claims that the answer leaves out.
    is_partial: bool,
}

#[derive(Debug)]
struct Entry {
    key: Vec<u8>,
    mode: Mode,
    created: i64,
    lease: i64,
}

/// The event that a waiter waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blocker {
    /// This claim goes: its key, and when it was created.
    One(Vec<u8>, i64),
    /// Any of the earlier claims goes.
    Any,
}

impl Queue {
    /// Reads the last answers of a transaction, which list what stands below `queue`, as it concerns the
    /// claim with the key `own`.
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
            claims.extend(found.filter_map(|found| Entry::read(found, queue.as_bytes())));
        }
        if !is_list {
            return Err(unexpected("no list of claims"));
        }
        claims.sort_unstable_by_key(|claim| claim.created);
        // Our own claim may be in two answers.
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

    /// Claims as they were in this revision: when they were created, their keys and modes.
    #[cfg(test)]
    pub(crate) fn of(revision: i64, claims: &[(i64, &str, Mode)]) -> Self {
        let entry = |(created, key, mode): &(i64, &str, Mode)| Entry {
            key: key.as_bytes().to_vec(),
            mode: *mode,
            created: *created,
            lease: 1,
        };
        Self {
            revision,
            claims: claims.iter().map(entry).collect(),
            ..Self::default()
        }
    }

    /// Says that only our own claim was asked for.
    pub(crate) fn of_our_own(mut self) -> Self {
        self.is_partial = true;
        self
    }

    /// Returns true if claims were left out.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The create revision of our own claim, if it is there.
    pub(crate) fn created(&self) -> Option<i64> {
        self.own.map(|own| self.claims[own].created)
    }

    /// The lease that our own claim stands under, if it is there.
    pub(crate) fn lease(&self) -> Option<i64> {
        self.own.map(|own| self.claims[own].lease)
    }

    /// Returns true if our own claim is there, and holds the key.
    pub(crate) fn is_ours(&self) -> bool {
        let is_let_in = |own| blocking_claim(&self.modes(), own).is_none();
        !self.is_partial && self.own.is_some_and(is_let_in)
    }

    /// Returns true if a claim in `mode` might hold the key if it came now: it would, unless claims were left out.
    pub(crate) fn might_let_in(&self, mode: Mode) -> bool {
        let mut modes = self.modes();
        modes.push(mode);
        blocking_claim(&modes, modes.len() - 1).is_none()
    }

    /// Returns what the claim that was `created` then waits for; `None` when it holds the key, or is not there.
    pub(crate) fn blocker_of(&self, created: i64) -> Option<Blocker> {
        let own = self.claims.iter().position(|one| one.created == created)?;
        let modes = self.modes();
        let before = blocking_claim(&modes, own)?;
        let both_are_permits = !modes[own].conflicts_with(modes[before]);
        Some(if both_are_permits {
            Blocker::Any
        } else {
            let before = &self.claims[before];
            Blocker::One(before.key.clone(), before.created)
        })
    }

    /// The claims that hold the key: when they were created, and their keys.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (i64, &[u8])> {
        let holders = holders(self.claims.iter().map(|claim| claim.mode));
        let holders = self.claims[..holders].iter();
        holders.map(|claim| (claim.created, claim.key.as_slice()))
    }

    pub(crate) fn has(&self, created: i64) -> bool {
        let found = self
            .claims
            .binary_search_by_key(&created, |one| one.created);
        found.is_ok()
    }

    /// Removes a claim that was deleted in the revision `gone`, but not a later one with the same key.
    pub(crate) fn remove(&mut self, key: &[u8], gone: i64) {
        let is_it = |claim: &Entry| claim.key == key && claim.created < gone;
        if let Some(index) = self.claims.iter().position(is_it) {
            self.claims.remove(index);
        }
    }

    /// An error when a claim before the one that was `created` then never ends by itself: whoever waited for it might
    /// wait for ever.
    pub(crate) fn check_ends(&self, created: i64) -> Result<()> {
        let endless = |claim: &&Entry| claim.lease == 0 && claim.created < created;
        match self.claims.iter().find(endless) {
            Some(claim) => Err(never_ends(&String::from_utf8_lossy(&claim.key))),
            None => Ok(()),
        }
    }

    fn modes(&self) -> Vec<Mode> {
        self.claims.iter().map(|claim| claim.mode).collect()
    }
}

fn never_ends(key: &str) -> Error {
    Error::new(
        ErrorKind::Backend,
        format!("the key {key:?} is a claim on the lock without a lease, so it never ends: delete it, or use another key or namespace"),
    )
    .with_backend(BACKEND)
}

/// When the servers had come to what they answer.
pub(crate) fn revision(answer: &TxnResponse) -> Result<i64> {
    let revision = answer.header().map(ResponseHeader::revision);
    revision.ok_or_else(|| unexpected("no revision"))
}

impl Entry {
    /// A claim stands directly below the queue's name; what is further below belongs to other locks.
    fn read(found: &KeyValue, queue: &[u8]) -> Option<Self> {
        let name = found.key().strip_prefix(queue)?;
        if name.is_empty() || name.contains(&b'/') {
            return None;
        }
        Some(Self {
            key: found.key().to_vec(),
            mode: mode_of(name, found.value()),
            created: found.create_revision(),
            lease: found.lease(),
        })
    }
}
