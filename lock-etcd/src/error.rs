//! Translates the driver's errors into the errors of `lock_core`, in one match.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use etcd_client::Error as EtcdError;
use lock_core::backend::HumanDuration;
use lock_core::{Error, ErrorKind};
use tonic::{Code, Status};

pub(crate) const BACKEND: &str = "etcd";

/// Creates the error for a missing answer; the outcome of the request is unknown.
pub(crate) fn no_answer(limit: Duration) -> Error {
    let limit = HumanDuration(limit);
    unavailable(format!("no answer within {limit}: {CHECK}"))
}

/// Creates the error for a runtime that ended before the answer.
pub(crate) fn runtime_gone() -> Error {
    unavailable("the runtime of the request was shut down before the answer came: try again")
}

/// Creates the error for a claim whose lease has ended.
pub(crate) fn lease_ended() -> Error {
    unavailable(
        "the lease has ended on the server: try again, with a longer ttl if this happens often",
    )
}

/// Creates the error for a cluster that has reached a later term.
pub(crate) fn leader_changed() -> Error {
    unavailable("the cluster has elected another leader since the request: try again")
}

pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unavailable, message).with_backend(BACKEND)
}

/// Creates the error for an answer that no etcd server gives.
pub(crate) fn unexpected(what: &str) -> Error {
    Error::new(
        ErrorKind::Backend,
        format!("unexpected answer, {what}: is this really an etcd server?"),
    )
    .with_backend(BACKEND)
}

/// Translates a driver's error.
pub(crate) fn translate(error: EtcdError) -> Error {
    let (kind, advice) = classify(&error);
    advise(error, kind, advice)
}

/// Creates an error of `kind` with the text of the driver, and `advice`.
pub(crate) fn advise(error: EtcdError, kind: ErrorKind, advice: &str) -> Error {
    let error = DriverError(error);
    Error::new(kind, format!("{error}: {advice}"))
        .with_backend(BACKEND)
        .with_source(error)
}

/// A driver's error that displays only the message of the server. The driver's own text contains
/// that message, so a report of the whole chain would repeat it.
#[derive(Debug)]
struct DriverError(EtcdError);

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match status_of(&self.0) {
            Some(status) => f.write_str(status.message()),
            None => self.0.fmt(f),
        }
    }
}

impl StdError for DriverError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match status_of(&self.0) {
            Some(status) => status.source(),
            None => self.0.source(),
        }
    }
}

/// Returns true if an etcd server has answered with this error, and not a proxy in between.
pub(crate) fn is_answer(error: &EtcdError) -> bool {
    status_of(error).is_some_and(|status| status.message().starts_with("etcdserver:"))
}

/// Returns true if the server does not know the lease.
pub(crate) fn is_lease_missing(error: &EtcdError) -> bool {
    const WORDS: &str = "lease not found";
    match error {
        // The driver replaces the answer to the first request of a stream by this text.
        EtcdError::LeaseKeepAliveError(told) => told == WORDS,
        other => says(other, WORDS) && status_of(other).map(Status::code) == Some(Code::NotFound),
    }
}

/// Returns true if a request or its answer has too many operations or bytes.
fn is_too_large(error: &EtcdError) -> bool {
    const SIZES: [&str; 4] = [
        "too many operations in txn request",
        "request is too large",
        // The texts of gRPC, on either side.
        "message larger than max",
        "message length too large",
    ];
    SIZES.iter().any(|size| says(error, size))
}

/// Returns true if users were changed since the login. The server did not carry out the request,
/// and will after another login.
fn is_login_outdated(error: &EtcdError) -> bool {
    says(error, "auth store is old")
}

/// Returns true if the server does not accept the user. Returns false if the user only lacks a
/// permission.
pub(crate) fn rejects_user(error: &EtcdError) -> bool {
    let code = status_of(error).map(Status::code);
    classify(error).0 == ErrorKind::Denied && code != Some(Code::PermissionDenied)
}

/// Returns true if the server's message contains `words`.
fn says(error: &EtcdError, words: &str) -> bool {
    status_of(error).is_some_and(|status| status.message().contains(words))
}

fn status_of(error: &EtcdError) -> Option<&Status> {
    match error {
        EtcdError::GRpcStatus(status) => Some(status),
        _ => None,
    }
}

fn classify(error: &EtcdError) -> (ErrorKind, &'static str) {
    let Some(status) = status_of(error) else {
        return match error {
            EtcdError::InvalidUri(_) | EtcdError::InvalidArgs(_) => (
                ErrorKind::Config,
                "write the url like etcd://host1:2379,host2:2379",
            ),
            _ => (ErrorKind::Unavailable, CHECK),
        };
    };
    let says = |words| says(error, words);
    if says("authentication is not enabled") {
        return (
            ErrorKind::Config,
            "leave user and password out of the url, or turn authentication on",
        );
    }
    if says("authentication failed") || says("user name is empty") {
        return DENIED;
    }
    if says("database space exceeded") {
        return (
            ErrorKind::Unavailable,
            "compact and defragment the cluster, or raise its quota, and disarm the alarm",
        );
    }
    if is_too_large(error) {
        return (
            ErrorKind::Config,
            "raise --max-txn-ops (at least 2) and --max-request-bytes of the servers",
        );
    }
    if is_login_outdated(error) {
        return (
            ErrorKind::Unavailable,
            "users were changed just now; try again",
        );
    }
    match status.code() {
        Code::PermissionDenied | Code::Unauthenticated => DENIED,
        Code::Unavailable if is_answer(error) => (
            ErrorKind::Unavailable,
            "check that a majority of the members runs and reaches each other",
        ),
        Code::Unimplemented => (ErrorKind::Unsupported, "polylock needs etcd 3.4 or later"),
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Aborted
        | Code::ResourceExhausted
        | Code::Unknown
        | Code::Internal => (ErrorKind::Unavailable, CHECK),
        _ => (ErrorKind::Backend, "look at the server's log"),
    }
}

const CHECK: &str = "check that the servers run and are reachable";

const DENIED: (ErrorKind, &str) = (
    ErrorKind::Denied,
    "check user and password in the url, and the permissions of the user's roles",
);

/// The reason why a request has no usable answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request was never sent.
    NotSent(Error),
    /// The request was not carried out, but will be after another login.
    LoggedOut(Error),
    /// The request needs a lease that the server does not know, so it was not carried out.
    LeaseMissing(Error),
    /// The server granted a lease of this id before.
    LeaseKnown(Error),
    /// A server has refused the request, so it was not carried out.
    Refused(Error),
    /// The request was too large for the server, or its answer was too large for the client. The
    /// request will not arrive later.
    TooLarge(Error),
    /// The request was sent, and its outcome is unknown.
    Unknown(Error),
}

impl Failure {
    /// Classifies a driver's error about a request that was sent to `server`.
    pub(crate) fn of(error: EtcdError, server: &str) -> Self {
        let is_open = classify(&error).0 == ErrorKind::Unavailable;
        let failure: fn(Error) -> Self = if is_login_outdated(&error) {
            Self::LoggedOut
        } else if is_too_large(&error) {
            Self::TooLarge
        } else if is_lease_missing(&error) {
            Self::LeaseMissing
        } else if is_open || !is_answer(&error) {
            Self::Unknown
        } else if says(&error, "lease already exists") {
            Self::LeaseKnown
        } else {
            Self::Refused
        };
        failure(translate(error).with_server(server.to_owned()))
    }

    /// Returns true if the request may succeed when it is repeated.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::NotSent(error) | Self::LoggedOut(error) | Self::Unknown(error) => {
                error.is_retryable()
            }
            _ => false,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotSent(error)
            | Failure::LoggedOut(error)
            | Failure::LeaseMissing(error)
            | Failure::LeaseKnown(error)
            | Failure::Refused(error)
            | Failure::TooLarge(error)
            | Failure::Unknown(error) => error,
        }
    }
}
