//! The error type of every backend.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::LockKey;

/// The result of lock operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The category of an [`Error`], by what a caller can do about it.
///
/// Contention is no error: a lock that another client holds is `Ok(None)`.
///
/// ```
/// use lock_core::{ErrorKind, LockKey};
///
/// let error = LockKey::new("").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidKey);
/// assert!(!error.is_retryable());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key or namespace is empty or too long. Change it.
    InvalidKey,
    /// The configuration or a parameter is wrong. Change it.
    Config,
    /// The backend does not support the request.
    Unsupported,
    /// The store is unreachable or does not answer. Safe to retry.
    Unavailable,
    /// The store rejects this client: authentication or permission.
    Denied,
    /// Other holders are in the way of an [upgrade](crate::LockGuard::try_upgrade). All other calls
    /// report contention as `Ok(None)`.
    Busy,
    /// The lock was lost before the work under it was done.
    Lost,
    /// The client was shut down.
    Closed,
    /// The store's answer was unexpected.
    Backend,
}

/// The error of a lock operation: a message that says what to do, with kind, key and server.
///
/// ```
/// use lock_core::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Unavailable, "connection refused")
///     .with_operation("connect")
///     .with_backend("redis")
///     .with_server("cache:6379");
/// assert_eq!(error.to_string(), "cannot connect to redis at cache:6379: connection refused");
/// assert!(error.is_retryable());
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    operation: Option<&'static str>,
    key: Option<LockKey>,
    backend: Option<&'static str>,
    server: Option<Cow<'static, str>>,
    driver: Option<Arc<dyn StdError + Send + Sync>>,
    cause: Option<Arc<Cause>>,
}

/// One link of the driver's error chain whose text is new.
#[derive(Debug)]
struct Cause {
    text: String,
    next: Option<Arc<Cause>>,
}

impl Error {
    /// Creates an error of `kind`; `message` says what is wrong and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            operation: None,
            key: None,
            backend: None,
            server: None,
            driver: None,
            cause: None,
        }))
    }

    /// Sets the operation that failed, as a verb: `acquire`, `renew`, `release`, `connect`.
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        self.0.operation = Some(operation);
        self
    }

    /// Sets the key of the operation.
    #[must_use]
    pub fn with_key(mut self, key: &LockKey) -> Self {
        self.0.key = Some(key.clone());
        self
    }

    /// Sets the backend's name.
    #[must_use]
    pub fn with_backend(mut self, backend: &'static str) -> Self {
        self.0.backend = Some(backend);
        self
    }

    /// Sets the server as `host:port`, without a password.
    #[must_use]
    pub fn with_server(mut self, server: impl Into<Cow<'static, str>>) -> Self {
        self.0.server = Some(server.into());
        self
    }

    /// Sets the server, unless the error names one.
    #[must_use]
    pub fn or_server(self, server: &str) -> Self {
        match self.0.server {
            Some(_) => self,
            None => self.with_server(server.to_owned()),
        }
    }

    /// Sets the driver's error, for [`driver_error`](Self::driver_error).
    ///
    /// The chain of [`source`](StdError::source) leaves out texts that the message or an earlier
    /// link already contains, so that a report of the whole chain repeats nothing.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source: Box<dyn StdError + Send + Sync> = source.into();
        self.0.cause = Cause::of(&*source, &self.0.message);
        self.0.driver = Some(Arc::from(source));
        self
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the operation that failed: `acquire`, `renew`, `release` or `connect`.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// Returns the key of the operation.
    pub fn key(&self) -> Option<&LockKey> {
        self.0.key.as_ref()
    }

    /// Returns the backend's name.
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// Returns the server as `host:port`.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// Returns the driver's error, for downcasts.
    pub fn driver_error(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.0.driver.as_deref()
    }

    /// Returns true if the same call may succeed later: the store was unavailable.
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        let mut words = Vec::new();
        if let Some(operation) = inner.operation {
            words.push(format!("cannot {operation}"));
        }
        if let Some(key) = &inner.key {
            words.push(format!("lock {key:?}"));
        }
        if let Some(backend) = inner.backend {
            let preposition = match inner.operation {
                Some("connect") => "to ",
                _ if words.is_empty() => "",
                _ => "on ",
            };
            words.push(format!("{preposition}{backend}"));
        }
        if let Some(server) = &inner.server {
            words.push(format!("at {server}"));
        }
        if !words.is_empty() {
            write!(f, "{}: ", words.join(" "))?;
        }
        f.write_str(&inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.to_string())
            .field("driver", &self.0.driver)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        as_source(&self.0.cause)
    }
}

impl Cause {
    /// Returns the links of the chain of `error` whose text is neither in `said` nor in an earlier
    /// link.
    fn of(error: &(dyn StdError + 'static), said: &str) -> Option<Arc<Self>> {
        let texts: Vec<String> = std::iter::successors(Some(error), |link| (*link).source())
            .map(|error| error.to_string())
            .collect();
        let is_new = |at: usize| {
            let text = texts[at].as_str();
            !said.contains(text) && !texts[..at].iter().any(|earlier| earlier.contains(text))
        };
        let news: Vec<usize> = (0..texts.len()).filter(|at| is_new(*at)).collect();
        news.into_iter().rev().fold(None, |next, at| {
            let text = texts[at].clone();
            Some(Arc::new(Self { text, next }))
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        as_source(&self.next)
    }
}

fn as_source(cause: &Option<Arc<Cause>>) -> Option<&(dyn StdError + 'static)> {
    match cause {
        Some(cause) => Some(&**cause),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_one_sentence() {
        let error = Error::new(
            ErrorKind::Unavailable,
            "no answer within 1 s: is the server up?",
        )
        .with_operation("acquire")
        .with_key(&LockKey::new("coupon/42").unwrap())
        .with_backend("redis")
        .with_server("cache:6379");
        assert_eq!(
            error.to_string(),
            "cannot acquire lock \"coupon/42\" on redis at cache:6379: no answer within 1 s: is the server up?"
        );
        assert!(error.is_retryable());
        let error = Error::new(ErrorKind::Unavailable, "connection refused")
            .with_operation("connect")
            .with_backend("etcd")
            .with_server("127.0.0.1:2379");
        assert_eq!(
            error.to_string(),
            "cannot connect to etcd at 127.0.0.1:2379: connection refused"
        );
    }

    #[test]
    fn a_chain_says_each_thing_once() {
        let refused = || std::io::Error::other("connection refused");
        let chain = |error: Error| {
            let mut texts = Vec::new();
            let mut link = error.source();
            while let Some(error) = link {
                texts.push(error.to_string());
                link = error.source();
            }
            texts
        };
        let error = Error::new(ErrorKind::Unavailable, "no connection: connection refused");
        let error = error.with_source(refused());
        assert!(
            error
                .driver_error()
                .is_some_and(|error| error.is::<std::io::Error>())
        );
        assert!(chain(error).is_empty());
        let nested = || Error::new(ErrorKind::Backend, "outer").with_source(refused());
        let error = Error::new(ErrorKind::Unavailable, "no connection").with_source(nested());
        assert_eq!(chain(error), ["outer", "connection refused"]);
        let error = Error::new(ErrorKind::Unavailable, "outer failed").with_source(nested());
        assert_eq!(chain(error), ["connection refused"]);
    }
}
