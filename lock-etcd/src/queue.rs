//! The claims on one key, in the order in which they came.

use etcd_client::{KeyValue, ResponseHeader, TxnOpResponse, TxnResponse};
use lock_core::{Mode, Result, blocker};

use crate::error::unexpected;
use crate::layout::mode_of;

/// The claims on a key at one moment, as far as one of them is concerned: those before it, and itself.
#[derive(Debug)]
pub(crate) struct Queue {
    /// When this was so; what comes later has a greater revision.
    pub(crate) revision: i64,
    claims: Vec<Entry>,
    /// Where our own claim is.
    own: Option<usize>,
}

#[derive(Debug)]
struct Entry {
    key: Vec<u8>,
    mode: Mode,
    created: i64,
    lease: i64,
}

/// What a waiter waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blocker {
    /// That this claim goes: its key, and when it was created.
    One(Vec<u8>, i64),
    /// That any of the earlier claims goes.
    Any,
}

impl Queue {
    /// Reads the last answer of a transaction, which lists what stands below `queue`, as it concerns the
    /// claim with the key `own`.
    pub(crate) fn read(answer: &TxnResponse, queue: &str, own: &str) -> Result<Self> {
        let revision = revision(answer)?;
        let Some(TxnOpResponse::Get(list)) = answer.op_responses().pop() else {
            return Err(unexpected("no list of claims"));
        };
        let mut claims: Vec<Entry> = list
            .kvs()
            .iter()
            .filter_map(|found| Entry::read(found, queue.as_bytes()))
            .collect();
        claims.sort_unstable_by_key(|claim| claim.created);
        let own = claims.iter().position(|claim| claim.key == own.as_bytes());
        if let Some(own) = own {
            claims.truncate(own + 1);
        }
        Ok(Self {
            revision,
            claims,
            own,
        })
    }

    /// The create revision of our own claim, if it is there.
    pub(crate) fn created(&self) -> Option<i64> {
        self.own.map(|own| self.claims[own].created)
    }

    /// The lease that our own claim stands under, if it is there.
    pub(crate) fn lease(&self) -> Option<i64> {
        self.own.map(|own| self.claims[own].lease)
    }

    /// What our own claim still waits for; `None` when it holds the key.
    pub(crate) fn blocker(&self) -> Option<Blocker> {
        let own = self.own?;
        let modes: Vec<Mode> = self.claims.iter().map(|claim| claim.mode).collect();
        let before = blocker(&modes, own)?;
        let both_are_permits = !modes[own].conflicts_with(modes[before]);
        Some(if both_are_permits {
            Blocker::Any
        } else {
            let before = &self.claims[before];
            Blocker::One(before.key.clone(), before.created)
        })
    }

    /// Whether a claim in `mode` would hold the key if it came now.
    pub(crate) fn would_let_in(&self, mode: Mode) -> bool {
        let mut modes: Vec<Mode> = self.claims.iter().map(|claim| claim.mode).collect();
        modes.push(mode);
        blocker(&modes, modes.len() - 1).is_none()
    }

    /// Takes a claim out that has gone.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let Some(place) = self.claims.iter().position(|claim| claim.key == key) else {
            return;
        };
        self.claims.remove(place);
        self.own = match self.own {
            Some(own) if own > place => Some(own - 1),
            Some(own) if own == place => None,
            own => own,
        };
    }
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
