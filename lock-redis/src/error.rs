//! The translation of driver errors to polylock's errors.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use lock_core::backend::HumanDuration;
use lock_core::{Error, ErrorKind};
use redis::{ErrorKind as RedisErrorKind, RedisError, ServerErrorKind};

pub(crate) const BACKEND: &str = "redis";

pub(crate) const NO_CLUSTER: &str =
    "this is a Redis Cluster node, which is not supported yet: use a single server";

/// Returns the error of a request without an answer, whose outcome is unknown.
pub(crate) fn no_answer(limit: Duration) -> Error {
    let limit = HumanDuration(limit);
    let told = format!("no answer within {limit}: check that the server runs and is reachable");
    Error::new(ErrorKind::Unavailable, told).with_backend(BACKEND)
}

/// Translates a driver error by its code and text.
pub(crate) fn translate(error: RedisError) -> Error {
    let (kind, advice) = classify(&error);
    // The driver names the kind of the error, too.
    let told = format!("{error}: {advice}").replace(" - InvalidClientConfig", "");
    Error::new(kind, told)
        .with_backend(BACKEND)
        .with_source(error)
}

/// Translates an I/O error of a connection, with TLS failures explained.
pub(crate) fn explain(error: io::Error) -> Error {
    #[cfg(feature = "tls")]
    let error = match lock_tls::explain(error) {
        Ok(told) => return told.with_backend(BACKEND),
        Err(error) => error,
    };
    broken(error)
}

/// Translates the end of a connection.
pub(crate) fn broken(error: io::Error) -> Error {
    translate(error.into())
}

/// Returns the error of an invalid setting.
pub(crate) fn config_error(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, message).with_backend(BACKEND)
}

fn classify(error: &RedisError) -> (ErrorKind, &'static str) {
    if error
        .detail()
        .is_some_and(|detail| detail.contains("DB index is out of range"))
    {
        return (
            ErrorKind::Config,
            "the server has no database of that number; choose one below its setting `databases`, which is 16 by default",
        );
    }
    let says = |words: &[&str]| {
        let detail = error.detail().unwrap_or_default();
        words.iter().all(|word| detail.contains(word))
    };
    if says(&["unknown command", "HELLO"]) {
        return (
            ErrorKind::Unsupported,
            "the server, or a proxy before it, speaks RESP2 only: polylock needs Redis 6 or later, or Valkey, with HELLO",
        );
    }
    if says(&["Unknown Redis command called from"]) {
        return (
            ErrorKind::Unsupported,
            "the server does not have a command that locks need: look for rename-command in its configuration",
        );
    }
    let is_denied = |detail: &str| DENIED_IN_SCRIPTS.iter().any(|words| detail.contains(words));
    if error.detail().is_some_and(is_denied) {
        return DENIED;
    }
    match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => return DENIED,
        // From a proxy that does not reveal the cluster in its answer to HELLO.
        Some("MOVED" | "ASK" | "CROSSSLOT") => return (ErrorKind::Unsupported, NO_CLUSTER),
        Some("OOM") => {
            return (
                ErrorKind::Unavailable,
                "the server is out of memory; raise maxmemory or free some",
            );
        }
        Some("MISCONF") => {
            return (
                ErrorKind::Unavailable,
                "the server refuses writes; look at its log",
            );
        }
        Some("NOREPLICAS") => {
            return (
                ErrorKind::Unavailable,
                "the server has fewer replicas than min-replicas-to-write: start them, or lower it",
            );
        }
        Some("BUSY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN") => {
            return (ErrorKind::Unavailable, "the server is not ready; try again");
        }
        Some("FOREIGN" | "WRONGTYPE") => {
            return (
                ErrorKind::Backend,
                "use another key or namespace, or remove it",
            );
        }
        _ => {}
    }
    classify_kind(error)
}

/// Classifies errors without a known code by the driver's kinds.
fn classify_kind(error: &RedisError) -> (ErrorKind, &'static str) {
    match error.kind() {
        RedisErrorKind::AuthenticationFailed | RedisErrorKind::Server(ServerErrorKind::NoPerm) => {
            DENIED
        }
        RedisErrorKind::InvalidClientConfig => (
            ErrorKind::Config,
            "write the url like redis://user:password@host:6379/0",
        ),
        RedisErrorKind::RESP3NotSupported => (
            ErrorKind::Unsupported,
            "polylock needs Redis 6 or later, or Valkey",
        ),
        RedisErrorKind::Server(ServerErrorKind::ReadOnly) => (
            ErrorKind::Unavailable,
            "this server is a replica; connect to the master",
        ),
        RedisErrorKind::Io => (
            ErrorKind::Unavailable,
            "check that the server runs and is reachable",
        ),
        // A connection that ends in the middle of an answer; the driver has no kind for it.
        RedisErrorKind::Parse if error.to_string().contains("end of input") => (
            ErrorKind::Unavailable,
            "its answer was cut off; check that the server runs and is reachable",
        ),
        _ if error.is_connection_dropped() || error.is_timeout() => (
            ErrorKind::Unavailable,
            "check that the server runs and is reachable",
        ),
        _ => (ErrorKind::Backend, "look at the server's log"),
    }
}

/// Texts of a missing permission inside a script, in Redis up to 7.0, and from 7.2 on. The error
/// has no code of its own.
const DENIED_IN_SCRIPTS: [&str; 2] = [
    "The user executing the script can't",
    "ACL failure in script",
];

const DENIED: (ErrorKind, &str) = (
    ErrorKind::Denied,
    "check user and password in the url, and the user's permissions (ACL)",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_that_is_missing_in_a_script_is_denied_by_every_version() {
        for words in [
            "-ERR The user executing the script can't run this command or subcommand script: 82, on @user_script:7.",
            "-ERR ACL failure in script: No permissions to access a key script: 82, on @user_script:7.",
            "-NOPERM this user has no permissions to run the 'evalsha' command",
        ] {
            let answer = redis::parse_redis_value(format!("{words}\r\n").as_bytes());
            let answer = answer.and_then(redis::Value::extract_error);
            let error = translate(answer.expect_err("it is an error"));
            assert_eq!(error.kind(), ErrorKind::Denied, "{words}: {error}");
        }
    }
}
