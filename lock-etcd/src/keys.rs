//! The keys of claims on the servers.

use etcd_client::{GetOptions, TxnOp};
use lock_core::backend::HoldId;
use lock_core::{LockKey, Mode, Namespace};

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

/// Builds the request for a key without its value, as it was `created` in that revision. An earlier
/// or later key of the same name does not count. Zero means any revision.
pub(crate) fn look_at(key: impl Into<Vec<u8>>, created: i64) -> TxnOp {
    let options = GetOptions::new()
        .with_keys_only()
        .with_min_create_revision(created)
        .with_max_create_revision(created);
    TxnOp::get(key, Some(options))
}

/// Returns the value of a claim: its mode, unless it is exclusive, and the metadata of the holder.
/// Other lock clients count every claim as exclusive.
pub(crate) fn claim_value(hold: &HoldId) -> String {
    let metadata = hold.metadata();
    match hold.mode() {
        Mode::Shared => format!("{SHARED} {metadata}"),
        Mode::Permit { of } => format!("{PERMIT}{of} {metadata}"),
        _ => metadata,
    }
}

/// Returns the metadata in the value of a claim of this library.
pub(crate) fn metadata_of(value: &str) -> &str {
    match value.split_once(' ') {
        Some((mode, metadata)) if is_mode(mode) => metadata,
        Some(_) | None => value,
    }
}

/// Returns true if the claim of this name, below the queue's prefix, is of this library.
pub(crate) fn is_own_name(name: &str) -> bool {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let parts = name.split_once('-');
    parts.is_some_and(|(lease, claim)| is_hex(lease) && claim.len() == 32 && is_hex(claim))
}

fn is_mode(word: &str) -> bool {
    word == SHARED || word.starts_with(PERMIT)
}

/// Returns the mode of the claim with this key and value.
pub(crate) fn mode_of(name: &[u8], value: &[u8]) -> Mode {
    // Only claims of this library have a mode: a value of another client must not admit a second
    // holder.
    let is_ours = name.contains(&b'-');
    // The metadata of the holder follows the mode, except in claims of earlier versions.
    let text = std::str::from_utf8(value);
    match text.map(|text| text.split(' ').next().unwrap_or_default()) {
        Ok(SHARED) if is_ours => Mode::Shared,
        Ok(value) if is_ours => {
            let number = value.strip_prefix(PERMIT).and_then(|of| of.parse().ok());
            let permit = number.and_then(|of| Mode::permit(of).ok());
            permit.unwrap_or(Mode::Exclusive)
        }
        Ok(_) | Err(_) => Mode::Exclusive,
    }
}

const SHARED: &str = "shared";
const PERMIT: &str = "permit:";

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

    #[test]
    fn modes_are_read_back_and_others_are_exclusive() {
        let metadata = "host=a pid=1 since=1 label=shared permit:2";
        for (mode, text) in [
            (Mode::Exclusive, ""),
            (Mode::Shared, "shared"),
            (Mode::permit(7).unwrap(), "permit:7"),
        ] {
            assert_eq!(mode_of(b"1f-0a", text.as_bytes()), mode);
            let value = format!("{text} {metadata}");
            assert_eq!(mode_of(b"1f-0a", value.trim_start().as_bytes()), mode);
            assert_eq!(metadata_of(value.trim_start()), metadata);
        }
        assert_eq!(mode_of(b"1f", b"shared"), Mode::Exclusive);
        for value in ["permit:0", "permit:x", "permit:-1", "Shared"] {
            assert_eq!(mode_of(b"1f-0a", value.as_bytes()), Mode::Exclusive);
        }
    }
}
