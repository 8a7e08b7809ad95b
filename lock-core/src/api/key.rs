//! Key of a resource and namespace of a deployment.

use std::fmt;
use std::sync::Arc;

use crate::{Error, ErrorKind, Result};

/// Maximum length of a key or namespace, in bytes.
const LENGTH_MAX: usize = 255;

/// The name of a locked resource: any UTF-8 text of 1 to 255 bytes.
///
/// Two keys are the same lock exactly if their bytes are equal, on every backend: no case folding,
/// no trimming, no Unicode normalisation.
///
/// ```
/// use lock_core::LockKey;
///
/// assert_eq!(LockKey::new("锁/订单:42")?.as_str(), "锁/订单:42");
/// assert!(LockKey::new("").is_err());
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey(Arc<str>);

impl LockKey {
    /// Creates a key from `key`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if `key` is empty or over 255 bytes.
    pub fn new(key: impl AsRef<str>) -> Result<Self> {
        let key = key.as_ref();
        check("lock key", key)?;
        Ok(Self(key.into()))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl AsRef<str> for LockKey {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<&str> for LockKey {
    type Error = Error;

    fn try_from(key: &str) -> Result<Self> {
        Self::new(key)
    }
}

/// A prefix of every key of a deployment, so that several deployments can share a store.
///
/// Default: none. Keys without a namespace are stored as they are, so that other lock clients use
/// the same keys. Each backend joins namespace and key in its own layout.
///
/// ```
/// use lock_core::Namespace;
///
/// assert_eq!(Namespace::new("shop")?.as_str(), Some("shop"));
/// assert_eq!(Namespace::none().as_str(), None);
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace(Option<Arc<str>>);

impl Namespace {
    /// Creates the empty namespace.
    pub fn none() -> Self {
        Self(None)
    }

    /// Creates a namespace from `namespace`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if `namespace` is empty or over 255 bytes.
    pub fn new(namespace: &str) -> Result<Self> {
        check("namespace", namespace)?;
        Ok(Self(Some(namespace.into())))
    }

    /// Returns the namespace as text, `None` if there is none.
    pub fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns the namespace and `separator`, as a prefix of keys; empty if there is none. The
    /// separator is a punctuation mark other than `%`.
    ///
    /// Escapes the separators of the namespace, so that the first one ends it: `a` with the key
    /// `b:c` and `a:b` with the key `c` are different locks.
    ///
    /// ```
    /// use lock_core::Namespace;
    ///
    /// assert_eq!(Namespace::new("a:b")?.prefix(':'), "a%3Ab:");
    /// assert_eq!(Namespace::none().prefix(':'), "");
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn prefix(&self, separator: char) -> String {
        self.as_str().map_or_else(String::new, |name| {
            let escape = format!("%{:02X}", u32::from(separator));
            let escaped = name.replace('%', "%25").replace(separator, &escape);
            format!("{escaped}{separator}")
        })
    }
}

fn check(what: &str, name: &str) -> Result<()> {
    let problem = match name.len() {
        0 => format!("the {what} is empty: give it 1 to {LENGTH_MAX} bytes of text"),
        1..=LENGTH_MAX => return Ok(()),
        length => format!(
            "the {what} has {length} bytes and the limit is {LENGTH_MAX}: shorten it, or use a hash of it"
        ),
    };
    Err(Error::new(ErrorKind::InvalidKey, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_counts_bytes_not_characters() {
        assert!(LockKey::new("a".repeat(255)).is_ok());
        assert!(LockKey::new("a".repeat(256)).is_err());
        assert!(LockKey::new("锁".repeat(85)).is_ok());
        assert!(LockKey::new("锁".repeat(86)).is_err());
    }

    #[test]
    fn refusals_say_what_to_do() {
        let empty = LockKey::new("").unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::InvalidKey);
        assert!(empty.to_string().contains("1 to 255 bytes"), "{empty}");
        let long = Namespace::new(&"n".repeat(300)).unwrap_err();
        assert!(
            long.to_string().contains("namespace has 300 bytes"),
            "{long}"
        );
    }
}
