//! The outcomes of a `#[locked]` function whose lock another client holds.

use std::error::Error;
use std::fmt;

/// The error of a [`locked`](crate::locked) function whose lock is held by another client until the
/// wait ends.
///
/// The error type of the function is made `From` it, and `From` [`polylock::Error`](crate::Error)
/// for a lock that fails or is lost. So busy and broken stay apart.
///
/// ```
/// #[derive(Debug)]
/// enum PaymentError {
///     Busy,
///     Lock(polylock::Error),
/// }
///
/// impl From<polylock::Busy> for PaymentError {
///     fn from(_: polylock::Busy) -> Self {
///         Self::Busy
///     }
/// }
///
/// impl From<polylock::Error> for PaymentError {
///     fn from(error: polylock::Error) -> Self {
///         Self::Lock(error)
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    key: String,
}

impl Busy {
    /// Creates the error for `key`.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into() }
    }

    /// Returns the key of the lock.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?} is held by another client", self.key)
    }
}

impl Error for Busy {}

/// A result that says that the work was skipped, for [`locked`](crate::locked) functions with
/// `on_busy = "skip"`.
///
/// ```
/// let skipped: Result<Option<u32>, polylock::Error> = polylock::Skipped::skipped();
/// assert!(matches!(skipped, Ok(None)));
/// ```
#[diagnostic::on_unimplemented(
    message = "a function with `on_busy = \"skip\"` returns `Result<(), E>` or `Result<Option<T>, E>`",
    label = "this result cannot say that the work was skipped"
)]
pub trait Skipped {
    /// Returns `Ok(None)` or `Ok(())`.
    fn skipped() -> Self;
}

impl<E> Skipped for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

impl<T, E> Skipped for Result<Option<T>, E> {
    fn skipped() -> Self {
        Ok(None)
    }
}
