//! The keys of claims on the servers.

use etcd_client::{GetOptions, TxnOp};
use lock_core::backend::HoldId;
use lock_core::{LockKey, Namespace};

/// The mapping from the names of locks to keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(namespace: &Namespace) -> Self {
        Self {
            prefix: namespace.prefix('/'),
        }
    }

    /// Returns the prefix of all claims on a lock: `namespace/key/`, or `key/` without a namespace.
    /// Claims of other lock clients have the same prefix.
    pub(crate) fn queue(&self, key: &LockKey) -> String {
        format!("{}{key}/", self.prefix)
    }

    /// Returns a key for a claim that no other client uses: it contains a lease and the claim id.
    pub(crate) fn claim(&self, hold: &HoldId, lease: i64) -> String {
        format!("{}{lease:x}-{}", self.queue(hold.key()), hold.claim())
    }

    /// Returns a key to read where only an answer matters. Without a namespace, the user may not
    /// have the permission to read it.
    pub(crate) fn probe(&self) -> &str {
        if self.prefix.is_empty() {
            "/"
        } else {
            &self.prefix
        }
    }
}

/// Returns the end of the range of keys that begin with `prefix`, which ends with a slash.
pub(crate) fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The part of a key that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    KeyOnly,
    Value,
}

/// Builds the request for a key as it was `created` in that revision. An earlier or later key of the
/// same name does not count. Zero means any revision.
pub(crate) fn look_at(key: impl Into<Vec<u8>>, created: i64, look: Look) -> TxnOp {
    let options = GetOptions::new()
        .with_min_create_revision(created)
        .with_max_create_revision(created);
    let options = match look {
        Look::KeyOnly => options.with_keys_only(),
        Look::Value => options,
    };
    TxnOp::get(key, Some(options))
}

/// Returns true if the claim of this name, below the queue's prefix, is of this library.
pub(crate) fn is_own_name(name: &str) -> bool {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let parts = name.split_once('-');
    parts.is_some_and(|(lease, claim)| is_hex(lease) && claim.len() == 32 && is_hex(claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(namespace: &str, key: &str) -> String {
        let keys = Keys::new(&Namespace::new(namespace).unwrap());
        keys.queue(&LockKey::new(key).unwrap())
    }

    #[test]
    fn namespaces_never_meet() {
        assert_eq!(queue("a/b", "c"), "a%2Fb/c/");
        assert_ne!(queue("a", "b/c"), queue("a/b", "c"));
        assert_ne!(queue("a%2Fb", "c"), queue("a/b", "c"));
        let plain = Keys::new(&Namespace::none());
        assert_eq!(plain.queue(&LockKey::new("a").unwrap()), "a/");
    }

    #[test]
    fn own_claims_have_a_lease_and_a_claim_id() {
        let own = format!("694d7ec-{:032x}", 7);
        assert!(is_own_name(&own));
        for other in [
            "694d7ec",
            "694d7ec-07",
            &own[1..].replace('-', "_"),
            &own.replace("00", "0x"),
        ] {
            assert!(!is_own_name(other), "{other}");
        }
    }

    #[test]
    fn a_range_ends_behind_what_is_below() {
        assert_eq!(end_of("a/"), b"a0");
    }
}
