//! Translation of the driver's errors into errors of polylock.

use std::borrow::Cow;
use std::time::Duration;

use lock_core::backend::HumanDuration;
use lock_core::{Error, ErrorKind};
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;

pub(crate) const BACKEND: &str = "mysql";

/// The prefix of the error by which [`MAY_WRITE`](crate::server_checks::MAY_WRITE) fails. The name
/// of the setting follows.
const MAY_NOT_WRITE: &str = "polylock may not write: ";

/// The failure of one request.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another transaction has locked the row.
    Locked,
    /// The server rolled back this transaction, in favor of another transaction.
    Deadlock,
    /// The server has no connection with that number.
    Gone,
    /// The server refuses a further connection.
    Refused(RefusedConnection),
    /// The server takes no writes at the moment. The connection stays intact.
    ReadOnly(Error),
    /// The server did not answer in time.
    NoAnswer(Duration),
    /// A table is missing.
    NoTable(Error),
    /// A column is missing.
    NoColumn(Error),
    /// The packet is larger than the server accepts.
    TooLarge(Error),
    /// The server did not answer in time, but is still working on the request.
    Working(Duration),
    /// The statement waits for a lock other than a row lock. Contains the server's description.
    Blocked(String),
    /// Another transaction has locked the row, and the server did not say why.
    Unexplained,
    /// The server denied the login or the statement, and executed nothing.
    Denied(Error),
    /// Any other failure.
    Failed(Error),
}

/// The error of a server that refuses a further connection.
#[derive(Clone, Debug)]
pub(crate) struct RefusedConnection {
    pub(crate) error: Error,
    /// True if the server accepts a new connection once another connection is closed.
    pub(crate) may_open: bool,
}

pub(crate) fn unavailable(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unavailable, what).with_backend(BACKEND)
}

pub(crate) fn config_error(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, what).with_backend(BACKEND)
}

/// Returns the error for a server that takes no writes because of `setting`.
pub(crate) fn takes_no_writes(setting: &str) -> Error {
    let (state, advice) = match setting {
        "offline_mode" => ("offline", "connect to the primary, or turn it off"),
        _ => ("read-only", "connect to the primary"),
    };
    unavailable(format!("the server is {state} ({setting}): {advice}"))
}

/// Returns the error for a server that did not answer in time. The request's outcome is unknown.
pub(crate) fn no_answer(limit: Duration) -> Error {
    let limit = HumanDuration(limit);
    unavailable(format!(
        "no answer within {limit}: check that the server runs and is reachable"
    ))
}

/// Returns the error for a port that accepts connections but sends nothing. MySQL and MariaDB
/// servers send the first packet.
pub(crate) fn no_greeting(limit: Duration) -> Error {
    let limit = HumanDuration(limit);
    unavailable(format!(
        "no login within {limit}: check host and port, and that a MySQL or MariaDB server runs there and is reachable"
    ))
}

/// Returns the error for a locks table that is blocked by no holder. `state` is the server's
/// description of the wait.
pub(crate) fn blocked(state: &str) -> Error {
    let blocks = |words: &[&str]| words.iter().any(|word| state.contains(word));
    let what = if blocks(&["backup lock", "global read lock", "for commit lock"]) {
        "FLUSH TABLES WITH READ LOCK, a backup (BACKUP STAGE) or a SET GLOBAL read_only that waits"
    } else if blocks(&["metadata lock", "table level lock", "table flush"]) {
        "LOCK TABLES, ALTER TABLE or another change of the table, or FLUSH TABLES, that runs or waits for an open transaction"
    } else if blocks(&["ACK", "ommit"]) {
        "what keeps the server from committing, such as a replica or a disk that does not confirm"
    } else {
        "LOCK TABLES, FLUSH TABLES, a backup or ALTER TABLE"
    };
    unavailable(format!(
        "the locks table is blocked on the server (\"{state}\"), and not by a lock: end {what}; SHOW PROCESSLIST shows its session"
    ))
}

/// Returns the error for a request that was dropped together with its runtime.
pub(crate) fn abandoned() -> Error {
    unavailable("the runtime of the connection was shut down: try again")
}

/// Returns the error for a runtime without I/O, on which opening a socket panics.
pub(crate) fn no_sockets() -> Error {
    config_error(
        "no connection can be opened on this runtime: build it with enable_io() or enable_all()",
    )
}

/// Returns the failure for a packet that is larger than the server accepts.
pub(crate) fn too_large(packet: usize, limit: usize) -> Failure {
    Failure::TooLarge(config_error(format!(
        "max_allowed_packet of the server is {limit} bytes, and a statement has {packet}: raise it"
    )))
}

/// Returns the error for an answer that does not match the request.
pub(crate) fn unexpected(what: &'static str) -> Error {
    Error::new(
        ErrorKind::Backend,
        format!("unexpected answer, {what}: is this really a MySQL or MariaDB server?"),
    )
    .with_backend(BACKEND)
}

/// Translates a driver's error, by its contents.
pub(crate) fn translate(error: sqlx::Error) -> Error {
    let (kind, advice) = match &error {
        sqlx::Error::Database(database) => match refusing_setting(database.as_ref()) {
            Some(setting) => return takes_no_writes(setting),
            None if takes_no_write(database.as_ref()) => READ_ONLY,
            None if is_quota(database.as_ref()) => QUOTA,
            None => by_number(number(database.as_ref())),
        },
        sqlx::Error::Io(io) => lock_tls::meaning(io).unwrap_or(UNREACHABLE),
        sqlx::Error::Tls(source) if source.to_string().contains("does not support TLS") => (
            ErrorKind::Unavailable,
            "turn TLS on at the server, or use mysql:// without certificates",
        ),
        sqlx::Error::Tls(_) => (
            ErrorKind::Denied,
            "check the certificates: the server's has to be for the url's host and come from an authority that tls_ca names",
        ),
        sqlx::Error::Protocol(_) => (
            ErrorKind::Backend,
            "is this really a MySQL or MariaDB server? check host and port",
        ),
        sqlx::Error::Configuration(source) if source.to_string().contains("RSA") => (
            ErrorKind::Config,
            "passwords are sent by TLS only: turn TLS on at the server, and use mysqls:// in the url",
        ),
        sqlx::Error::Configuration(_) => (
            ErrorKind::Config,
            "write the url like mysql://user:password@host:3306/database",
        ),
        _ => (ErrorKind::Backend, "look at the server's log"),
    };
    Error::new(kind, format!("{error}: {advice}"))
        .with_backend(BACKEND)
        .with_source(error)
}

/// Translates the error of a failed attempt to connect.
pub(crate) fn connect_failure(error: sqlx::Error) -> Failure {
    match &error {
        sqlx::Error::Database(database) if NO_CONNECTION.contains(&number(database.as_ref())) => {
            let may_open = !is_quota(database.as_ref());
            let error = translate(error);
            Failure::Refused(RefusedConnection { error, may_open })
        }
        _ => Failure::Failed(translate(error)),
    }
}

/// Translates the error of a failed statement.
pub(crate) fn failure(error: sqlx::Error) -> Failure {
    if let sqlx::Error::Database(database) = &error {
        match number(database.as_ref()) {
            // MariaDB reports `LOCK_WAIT_TIMEOUT` also for a locked row under `NOWAIT`.
            LOCK_WAIT_TIMEOUT | LOCK_NOWAIT => return Failure::Locked,
            // MariaDB reports `RECORD_CHANGED` from 11.6 on, for a row that changed after the
            // snapshot.
            DEADLOCK | RECORD_CHANGED => return Failure::Deadlock,
            NO_SUCH_THREAD => return Failure::Gone,
            NO_SUCH_TABLE => return Failure::NoTable(translate(error)),
            NO_SUCH_COLUMN => return Failure::NoColumn(translate(error)),
            PACKET_TOO_LARGE => return Failure::TooLarge(translate(error)),
            _ if takes_no_write(database.as_ref()) => return Failure::ReadOnly(translate(error)),
            _ => {}
        }
    }
    let is_of_server = matches!(error, sqlx::Error::Database(_));
    let error = translate(error);
    match error.kind() {
        ErrorKind::Denied if is_of_server => Failure::Denied(error),
        _ => Failure::Failed(error),
    }
}

impl Failure {
    /// Converts the failure into an error, for callers that cannot wait for a holder.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Failed(error)
            | Self::Refused(RefusedConnection { error, .. })
            | Self::ReadOnly(error)
            | Self::NoTable(error)
            | Self::NoColumn(error)
            | Self::TooLarge(error)
            | Self::Denied(error) => error,
            Self::Locked => {
                unavailable("another transaction has the row locked: end it, or try again")
            }
            Self::NoAnswer(limit) | Self::Working(limit) => no_answer(limit),
            Self::Blocked(state) => blocked(&state),
            Self::Unexplained => unavailable(
                "the row is locked, and the server does not say why: check that it is reachable, or try again",
            ),
            Self::Gone => unexpected("about a connection"),
            Self::Deadlock => {
                unavailable("the server ended the transaction to resolve a deadlock; try again")
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

const LOCK_WAIT_TIMEOUT: u16 = 1205;
const LOCK_NOWAIT: u16 = 3572;
const DEADLOCK: u16 = 1213;
const RECORD_CHANGED: u16 = 1020;
const NO_SUCH_THREAD: u16 = 1094;
/// Too many connections: in total, per user by server setting, and by the user's own limit.
const NO_CONNECTION: [u16; 3] = [1040, 1203, USER_LIMIT];
const USER_LIMIT: u16 = 1226;
const TABLE_READ_ONLY: u16 = 1036;
const OPTION_PREVENTS: u16 = 1290;
const READ_ONLY_TRANSACTION: u16 = 1792;
const READ_ONLY_MODE: u16 = 1836;
const NO_SUCH_COLUMN: u16 = 1054;
const NO_SUCH_TABLE: u16 = 1146;
const PACKET_TOO_LARGE: u16 = 1153;

const UNREACHABLE: (ErrorKind, &str) = (
    ErrorKind::Unavailable,
    "check that the server runs and is reachable",
);

const QUOTA: (ErrorKind, &str) = (
    ErrorKind::Unavailable,
    "the user's quota of this hour is used up: raise it (ALTER USER ... WITH ...), or use another user",
);

const READ_ONLY: (ErrorKind, &str) = (
    ErrorKind::Unavailable,
    "this server takes no writes; connect to the primary",
);

fn number(error: &dyn DatabaseError) -> u16 {
    error
        .try_downcast_ref::<MySqlDatabaseError>()
        .map_or(0, MySqlDatabaseError::number)
}

/// Returns the setting that forbids writes, if [`MAY_WRITE`] caused the error.
///
/// [`MAY_WRITE`]: crate::server_checks::MAY_WRITE
fn refusing_setting(error: &dyn DatabaseError) -> Option<&str> {
    let (_, setting) = error.message().split_once(MAY_NOT_WRITE)?;
    Some(setting.trim_end_matches('\''))
}

/// Returns true if the server takes no writes at all. Other options make the server refuse single
/// statements with the same number.
fn takes_no_write(error: &dyn DatabaseError) -> bool {
    let message = error.message().to_ascii_lowercase();
    match number(error) {
        OPTION_PREVENTS => ["read-only", "read_only"]
            .iter()
            .any(|option| message.contains(option)),
        TABLE_READ_ONLY | READ_ONLY_TRANSACTION | READ_ONLY_MODE => true,
        _ => refusing_setting(error).is_some(),
    }
}

/// Returns true if the user's hourly quota is used up. Closing connections then makes no room.
fn is_quota(error: &dyn DatabaseError) -> bool {
    number(error) == USER_LIMIT && !error.message().contains("max_user_connections")
}

fn by_number(number: u16) -> (ErrorKind, &'static str) {
    match number {
        1044 | 1045 | 1130 | 1142 | 1143 | 1227 | 1370 | 1396 | 1698 | 1820 | 1862 | 3118
        | 3955 | 4150 | 4151 => (
            ErrorKind::Denied,
            "check user and password in the url, and the user's rights on database and tables",
        ),
        1129 => (
            ErrorKind::Unavailable,
            "the server blocks this host after connections that failed: run mysqladmin flush-hosts, or raise max_connect_errors",
        ),
        1021 | 1114 | 1206 => (
            ErrorKind::Unavailable,
            "the server has no room left on its disk, in the table or for locks: free some",
        ),
        1049 => (
            ErrorKind::Config,
            "create the database, or name another one in the url",
        ),
        1046 => (
            ErrorKind::Config,
            "name the database in the url: mysql://user:password@host:3306/database",
        ),
        PACKET_TOO_LARGE => (ErrorKind::Config, "raise max_allowed_packet on the server"),
        NO_SUCH_TABLE => (
            ErrorKind::Config,
            "create the table, or let it be created (create_table)",
        ),
        3159 => (
            ErrorKind::Config,
            "this server requires TLS: use mysqls:// in the url",
        ),
        OPTION_PREVENTS => (
            ErrorKind::Config,
            "turn that option of the server off, or use another server",
        ),
        number if NO_CONNECTION.contains(&number) => (
            ErrorKind::Unavailable,
            "the server allows no further connection, and those of this client are in use: raise max_connections or the user's limit, or hold fewer at once",
        ),
        3032 => (
            ErrorKind::Unavailable,
            "the server is offline (offline_mode): connect to the primary, or turn it off",
        ),
        1041 | 1037 | 1135 => (
            ErrorKind::Unavailable,
            "the server is out of memory or threads",
        ),
        1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1927 | 2006 | 2013 | 4031 => (
            ErrorKind::Unavailable,
            "the server ended the connection; try again",
        ),
        1317 | 1047 | 1180 | 3024 | 3100 | 3101 | 1969 | 1028 => {
            (ErrorKind::Unavailable, "try again")
        }
        _ => (ErrorKind::Backend, "look at the server's log"),
    }
}
