//! The keys of locks on the server.

use lock_core::backend::HoldId;
use lock_core::{LockKey, Mode, Namespace};

/// A byte that is invalid in UTF-8, so that no companion key is the name of a lock.
const COMPANION: u8 = 0xFF;

/// Maps lock keys to the server's keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(namespace: &Namespace) -> Self {
        Self {
            prefix: namespace.prefix(':').into_bytes(),
        }
    }

    /// Returns the key of a lock: `namespace:key` with the namespace's colons escaped. Without a
    /// namespace, the bare key that other clients use, too.
    pub(crate) fn lock(&self, key: &LockKey) -> Vec<u8> {
        [&self.prefix, key.as_str().as_bytes()].concat()
    }

    /// Returns the lock whose key on the server is `key`, if it is in this namespace.
    pub(crate) fn lock_of(&self, key: &[u8]) -> Option<LockKey> {
        let name = key.strip_prefix(self.prefix.as_slice())?;
        LockKey::new(std::str::from_utf8(name).ok()?).ok()
    }

    /// Returns the key of the tokens of shared and permit holders.
    pub(crate) fn tokens(&self, key: &LockKey) -> Vec<u8> {
        [
            &self.prefix,
            key.as_str().as_bytes(),
            &[COMPANION],
            b"tokens",
        ]
        .concat()
    }

    /// Returns the key of the queue of waiters.
    pub(crate) fn waits(&self, key: &LockKey) -> Vec<u8> {
        [
            &self.prefix,
            key.as_str().as_bytes(),
            &[COMPANION],
            b"waits",
        ]
        .concat()
    }

    /// Returns the key of the grant counter, one for all locks of the namespace.
    pub(crate) fn counter(&self) -> Vec<u8> {
        [self.prefix.as_slice(), &[COMPANION], b"grants"].concat()
    }
}

/// Returns the mark of a claim on the server.
///
/// Exclusive: the start of the key's value, before the grant number. Otherwise: the member in the
/// set of holders, whose first character is the mode.
pub(crate) fn owner_mark(hold: &HoldId) -> String {
    match hold.mode() {
        Mode::Shared => format!("s{}", hold.claim()),
        Mode::Upgradeable => format!("u{}", hold.claim()),
        Mode::Permit { .. } => format!("p{}", hold.claim()),
        _ => format!("{}:", hold.claim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_can_never_be_a_lock() {
        let keys = Keys::new(&Namespace::new("shop").unwrap());
        let key = LockKey::new("coupon").unwrap();
        assert_eq!(keys.lock(&key), b"shop:coupon");
        assert_eq!(keys.lock_of(b"shop:coupon"), Some(key.clone()));
        assert_eq!(keys.lock_of(&keys.counter()), None);
        assert_eq!(keys.lock_of(b"ship:coupon"), None);
        assert!(String::from_utf8(keys.tokens(&key)).is_err());
        assert!(String::from_utf8(keys.waits(&key)).is_err());
        assert!(String::from_utf8(keys.counter()).is_err());
        assert_eq!(Keys::new(&Namespace::none()).lock(&key), b"coupon");
    }

    #[test]
    fn namespaces_never_meet() {
        let at = |namespace: &str, key: &str| {
            let keys = Keys::new(&Namespace::new(namespace).unwrap());
            keys.lock(&LockKey::new(key).unwrap())
        };
        assert_eq!(at("a:b", "c"), b"a%3Ab:c");
        assert_ne!(at("a", "b:c"), at("a:b", "c"));
        assert_ne!(at("a%3Ab", "c"), at("a:b", "c"));
    }
}
