//! Translates the driver's errors into the errors of `lock_core`, in one match.

use std::borrow::Cow;
use std::time::Duration;

use lock_core::backend::HumanDuration;
use lock_core::{Error, ErrorKind};
use zookeeper_client::Error as ZooKeeperError;

pub(crate) const BACKEND: &str = "zookeeper";

pub(crate) type DriverResult<T> = std::result::Result<T, ZooKeeperError>;

/// Creates an error of this backend.
pub(crate) fn error_of(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(kind, message).with_backend(BACKEND)
}

/// Creates the error for a missing answer; the outcome of the request is unknown.
pub(crate) fn no_answer(limit: Duration) -> Error {
    let limit = HumanDuration(limit);
    error_of(
        ErrorKind::Unavailable,
        format!(
            "no answer within {limit}: check that most servers of the ensemble run and are reachable"
        ),
    )
}

/// Creates the error for a request that ends its connections, and cannot be made smaller.
pub(crate) fn too_large(kind: ErrorKind, bytes: usize) -> Error {
    error_of(
        kind,
        format!(
            "servers close the connection each time with a request of about {bytes} bytes: raise jute.maxbuffer of the servers, or use shorter keys, namespace and chroot"
        ),
    )
}

/// Creates the error for a persistent node below a lock that has the name of a claim.
pub(crate) fn no_claim(path: &str) -> Error {
    error_of(
        ErrorKind::Backend,
        format!(
            "node {path} is not ephemeral, but its name ends in a number like that of a claim: delete it, or use another key or namespace"
        ),
    )
}

/// Creates the error for a missing level above a lock that the user may not create.
pub(crate) fn not_made(error: ZooKeeperError, path: &str) -> Error {
    error_of(
        ErrorKind::Denied,
        format!("node {path} cannot be created ({error}): check auth and the ACL of the node above it, or create it by hand"),
    )
    .with_source(error)
}

/// Creates the error for a wrong setting.
pub(crate) fn config_error(message: impl Into<Cow<'static, str>>) -> Error {
    error_of(ErrorKind::Config, message)
}

/// Translates a driver's error.
pub(crate) fn translate(error: ZooKeeperError) -> Error {
    let (kind, advice) = classify(&error);
    error_of(kind, format!("{error}: {advice}")).with_source(error)
}

/// Returns true if the session has ended, which deletes all its nodes.
pub(crate) fn is_end_of_session(error: &ZooKeeperError) -> bool {
    matches!(
        error,
        ZooKeeperError::SessionExpired | ZooKeeperError::ClientClosed
    )
}

/// Creates the error for a claim that is gone, with its session or because another client deleted
/// its node.
pub(crate) fn claim_ended() -> Error {
    translate(ZooKeeperError::SessionExpired)
}

/// Returns true if a server has reported the end of the session.
pub(crate) fn is_expired(error: &ZooKeeperError) -> bool {
    *error == ZooKeeperError::SessionExpired
}

/// Returns true if the request may be repeated in this session or the next session.
pub(crate) fn is_cut_off(error: &ZooKeeperError) -> bool {
    is_expired(error) || is_loss_of_connection(error)
}

/// Returns true if the outcome of the request is unknown.
pub(crate) fn is_loss_of_connection(error: &ZooKeeperError) -> bool {
    matches!(
        error,
        ZooKeeperError::ConnectionLoss | ZooKeeperError::Custom(_) | ZooKeeperError::SessionMoved
    )
}

fn classify(error: &ZooKeeperError) -> (ErrorKind, &'static str) {
    match error {
        ZooKeeperError::NoAuth | ZooKeeperError::AuthFailed | ZooKeeperError::InvalidAcl => (
            ErrorKind::Denied,
            "check auth, and the access control lists (ACL) of the existing nodes",
        ),
        ZooKeeperError::BadArguments(_) => (
            ErrorKind::Config,
            "write servers like host1:2181,host2:2181",
        ),
        ZooKeeperError::Unimplemented => (
            ErrorKind::Unsupported,
            "polylock needs ZooKeeper 3.6 or later",
        ),
        ZooKeeperError::NoHosts
        | ZooKeeperError::Timeout
        | ZooKeeperError::ConnectionLoss
        | ZooKeeperError::SessionMoved
        | ZooKeeperError::Custom(_) => (
            ErrorKind::Unavailable,
            "check that most servers of the ensemble run and are reachable",
        ),
        ZooKeeperError::SessionExpired
        | ZooKeeperError::ClientClosed
        | ZooKeeperError::UnexpectedError(_) => (
            ErrorKind::Unavailable,
            "the session has ended, so try again",
        ),
        ZooKeeperError::NotReadOnly => (
            ErrorKind::Unavailable,
            "the server is cut off from its ensemble, so try again",
        ),
        ZooKeeperError::Throttled => (
            ErrorKind::Unavailable,
            "the server is overloaded, so try again",
        ),
        ZooKeeperError::QuotaExceeded => (
            ErrorKind::Backend,
            "raise the quota of the node, or use another namespace",
        ),
        ZooKeeperError::NoChildrenForEphemerals => (
            ErrorKind::Backend,
            "an ephemeral node of another client has this name, so use another key or namespace",
        ),
        _ => (ErrorKind::Backend, "look at the server's log"),
    }
}
