//! One error for every backend: what kind, during what, of which key, on which store, and why.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::LockKey;

/// The result of lock operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as far as a caller can act on it.
///
/// "Held by someone else" is not among them: that is `Ok(None)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key or namespace cannot be one. Change it.
    InvalidKey,
    /// The configuration or a parameter is wrong. Change it.
    Config,
    /// This backend cannot give what was asked for.
    Unsupported,
    /// The store cannot be reached or does not answer. Safe to retry.
    Unavailable,
    /// The store refuses this client: authentication or permission.
    Denied,
    /// The lock was lost while it was needed.
    Lost,
    /// The client was shut down.
    Closed,
    /// The store answered with something unexpected.
    Backend,
}

/// Why a lock operation failed: one sentence that says what to do, with its parts to look at.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    operation: Option<&'static str>,
    key: Option<LockKey>,
    backend: Option<&'static str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` says what is wrong and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            operation: None,
            key: None,
            backend: None,
            source: None,
        }))
    }

    /// Names what was being done, as a verb: `acquire`, `renew`, `release`, `connect`.
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        self.0.operation = Some(operation);
        self
    }

    /// Names the key it was about.
    #[must_use]
    pub fn with_key(mut self, key: &LockKey) -> Self {
        self.0.key = Some(key.clone());
        self
    }

    /// Names the backend it happened on.
    #[must_use]
    pub fn with_backend(mut self, backend: &'static str) -> Self {
        self.0.backend = Some(backend);
        self
    }

    /// Keeps the driver's error behind it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What went wrong, as far as a caller can act on it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was being done: `acquire`, `renew`, `release` or `connect`.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The key it was about.
    pub fn key(&self) -> Option<&LockKey> {
        self.0.key.as_ref()
    }

    /// The backend it happened on.
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// Whether the same call may succeed later without a change: the store could not be reached.
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            message,
            operation,
            key,
            backend,
            ..
        } = &*self.0;
        if let Some(operation) = operation {
            write!(f, "cannot {operation}")?;
        }
        if let Some(key) = key {
            let gap = if operation.is_some() { " " } else { "" };
            write!(f, "{gap}lock {key:?}")?;
        }
        if let Some(backend) = backend {
            let gap = if operation.is_some() || key.is_some() {
                " on "
            } else {
                ""
            };
            write!(f, "{gap}{backend}")?;
        }
        if operation.is_some() || key.is_some() || backend.is_some() {
            f.write_str(": ")?;
        }
        f.write_str(message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.to_string())
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_one_sentence() {
        let error = Error::new(
            ErrorKind::Unavailable,
            "no answer within 1s: is the server up?",
        )
        .with_operation("acquire")
        .with_key(&LockKey::new("coupon/42").unwrap())
        .with_backend("redis");
        assert_eq!(
            error.to_string(),
            "cannot acquire lock \"coupon/42\" on redis: no answer within 1s: is the server up?"
        );
        assert!(error.is_retryable());
    }
}
