//! Opening of connections.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Deadlines;
use lock_core::{Error, Result};
use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::MySqlConfig;
use crate::connection::allowance::Allowance;
use crate::connection::connection_id::{PEER, SERVER};
use crate::connection::idle::Purpose;
use crate::connection::session::Session;
use crate::connection::tls;
use crate::error::{Failure, RefusedConnection, config_error, connect_failure, no_greeting};
use crate::schema::grant_clock::SYSDATE_MOVES;

const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The set-up of every session, independent of the server's defaults.
///
/// - No locks on gaps between rows, and no silent truncation.
/// - Row locks: waits of a second at first. Other locks: waits longer than any request, so that the
///   error for both means a row lock.
/// - No limit on the size or the duration of a `SELECT`.
/// - MariaDB only: open transactions last as long as their sessions. A row is locked in its present
///   state, not in that of the transaction's snapshot.
const SET_UP: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET SESSION autocommit = 1, completion_type = 'NO_CHAIN', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 1, lock_wait_timeout = 20, sql_select_limit = 18446744073709551615, group_concat_max_len = 1024, sql_big_selects = 1, sql_safe_updates = 0 /*!80000 , max_execution_time = 0 */ /*M!100300 , max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0 */ /*M!110602 , innodb_snapshot_isolation = 0 */";

/// A factory of sessions with one set of options.
///
/// Has no `Debug`, since the `Debug` of the options shows the password.
#[derive(Clone)]
pub(crate) struct Connector {
    options: MySqlConnectOptions,
    greeting: String,
    /// The pools that share connections: all pools of the client.
    pub(crate) allowance: Arc<Allowance>,
    pub(crate) purpose: Purpose,
}

impl Connector {
    pub(crate) fn new(config: &MySqlConfig) -> Result<Self> {
        config.tls.check()?;
        let (url, verified) = match config.url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("mysqls") => {
                (format!("mysql://{rest}"), true)
            }
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("mysql") => {
                (config.url.clone(), config.tls.first_given().is_some())
            }
            _ => return Err(not_a_url()),
        };
        let options = server_at(&url)?;
        Ok(Self::with(if verified {
            tls::verified(options, &config.tls)?
        } else {
            options.ssl_mode(MySqlSslMode::Preferred)
        }))
    }

    /// Takes server, user, database and TLS from the options of a pool. Opens no connection.
    #[cfg(feature = "driver")]
    pub(crate) fn of_pool(options: &MySqlConnectOptions, config: &MySqlConfig) -> Result<Self> {
        if !config.url.is_empty() {
            return Err(config_error(
                "the url is set beside a pool, which names the server: leave the url empty",
            ));
        }
        config.tls.check()?;
        if options.get_socket().is_some() {
            // The server's list of connections has no port for them, so that a later connection
            // with the same number could be taken for one of this client.
            return Err(config_error(
                "the pool connects through a Unix socket: use a pool with a host and a port",
            ));
        }
        if options.get_database().is_none_or(str::is_empty) {
            return Err(config_error(
                "the pool names no database: set one in its options",
            ));
        }
        let host = options.get_host().trim_matches(['[', ']']).to_owned();
        let options = options.clone().host(&host);
        // A collation of another character set would be an error.
        let options = match options.get_collation() {
            Some(_) => options.collation("utf8mb4_general_ci"),
            None => options,
        };
        if config.tls.first_given().is_some() {
            return Ok(Self::with(tls::verified(options, &config.tls)?));
        }
        match options.get_ssl_mode() {
            MySqlSslMode::Required | MySqlSslMode::VerifyCa => Err(config_error(
                "the pool requires TLS without verifying the server: set ssl_mode VerifyIdentity, or certificates in tls",
            )),
            _ => Ok(Self::with(options)),
        }
    }

    fn with(options: MySqlConnectOptions) -> Self {
        Self {
            options: options
                .disable_statement_logging()
                .pipes_as_concat(false)
                .no_engine_substitution(false)
                .statement_cache_capacity(0)
                .charset("utf8mb4")
                .set_names(true)
                .timezone(Some("+00:00".to_owned())),
            greeting: format!(
                "{SET_UP};SELECT CONNECTION_ID(), {SERVER}, {PEER}, CAST(@@wait_timeout AS UNSIGNED), VERSION() LIKE '%MariaDB%', {SYSDATE_MOVES}, CAST(@@max_allowed_packet AS UNSIGNED)"
            ),
            allowance: Arc::default(),
            purpose: Purpose::default(),
        }
    }

    /// Makes the pool keep its last connection, for requests that end other connections.
    ///
    /// The end of a connection frees its locks, and makes room for another connection.
    pub(crate) fn keeping_one_open(mut self) -> Self {
        self.purpose.is_vital = true;
        self
    }

    /// Opens sessions that are always in a transaction, so that a take need not begin it.
    ///
    /// The transaction may be a lock, so the sessions are lent for long.
    pub(crate) fn in_transactions(mut self) -> Self {
        self.greeting = self
            .greeting
            .replacen("autocommit = 1", "autocommit = 0", 1);
        self.purpose.lends_for_long = true;
        self
    }

    /// Opens a session. The connection lives on the calling runtime.
    pub(crate) async fn open(&self, deadlines: &Deadlines) -> Result<Session, Failure> {
        let opening = async {
            let connection = self.options.connect().await.map_err(connect_failure)?;
            Session::begin(connection, &self.greeting).await
        };
        let opened = deadlines.timeout(CONNECT_LIMIT, opening).await;
        let opened = opened.unwrap_or_else(|| Err(no_greeting(CONNECT_LIMIT).into()));
        let told = |error: Error| error.with_server(self.server()).with_operation("connect");
        opened.map_err(|failure| match failure {
            Failure::Refused(RefusedConnection { error, may_open }) => {
                let error = told(error);
                Failure::Refused(RefusedConnection { error, may_open })
            }
            failure => told(failure.into_error()).into(),
        })
    }

    /// Returns the address of the server, as `host:port`.
    pub(crate) fn server(&self) -> String {
        let (host, port) = (self.options.get_host(), self.options.get_port());
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }
}

/// Returns user, server and database, from the URL and no other source.
fn server_at(url: &str) -> Result<MySqlConnectOptions> {
    // The driver accepts settings after a question mark, which could turn the verification off.
    if url.contains('?') {
        return Err(config_error(
            "the url has a question mark: leave settings out of it, and write a ? in user or password as %3F",
        ));
    }
    if url.contains('#') {
        return Err(config_error(
            "the url has a #: write it as %23 in user and password",
        ));
    }
    // The driver would take the rest of a password with a slash for the database. Servers quote the
    // database in errors.
    let (_, location) = url.split_once("://").unwrap_or_default();
    let (_, database) = location.split_once('/').unwrap_or_default();
    if database
        .strip_suffix('/')
        .is_some_and(|name| !name.contains(['/', '@']))
    {
        return Err(config_error(
            "the url ends with a / behind the database: leave it out",
        ));
    }
    if database.contains(['/', '@']) {
        return Err(config_error(
            "the url has more than a database behind the host: write / as %2F and @ as %40 in user and password",
        ));
    }
    // The driver's error may quote the password.
    let options = MySqlConnectOptions::from_str(url).map_err(|_| not_a_url())?;
    if options.get_database().is_none_or(str::is_empty) {
        return Err(config_error(
            "the url names no database: write it like mysql://user:password@host:3306/database",
        ));
    }
    // The driver replaces a missing user by root.
    let (user, _) = location.rsplit_once('@').unwrap_or_default();
    if user.is_empty() || user.starts_with(':') {
        return Err(config_error(
            "the url names no user: write it like mysql://user:password@host:3306/database",
        ));
    }
    // The driver keeps the brackets of an IPv6 address in the host's name.
    let host = options.get_host().trim_matches(['[', ']']).to_owned();
    Ok(options.host(&host))
}

fn not_a_url() -> Error {
    config_error("the url is malformed: write it like mysql://user:password@host:3306/database")
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    fn refusal(url: &str) -> String {
        let error = Connector::new(&MySqlConfig::new(url))
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hush"), "{shown}");
        shown
    }

    #[test]
    fn urls_that_the_driver_would_misread_are_refused() {
        for (url, part) in [
            ("mysqls://u@h/d?ssl-mode=DISABLED", "question mark"),
            ("mysql://u:hush?hush@h/d", "%3F"),
            ("mysql://u:1#hush@h/d", "%23"),
            ("mysql://u@h/d#hush", "%23"),
            ("mysql://u:1/hush@h/d", "%2F and @ as %40"),
            ("mysql://u@h/d/hush", "more than a database"),
            ("mysql://u:hush@h/d/", "ends with a / behind the database"),
            ("mysql://u:hush@h", "names no database"),
            ("mysql://u:hush@h/", "names no database"),
            ("mysql://h/hush", "names no user"),
            ("mysql://:hush@h/d", "names no user"),
            ("mysql:///hush", "names no user"),
            ("mysql://u:hush@/d", "is malformed"),
            ("mysql://u:hush@h:port/d", "is malformed"),
            ("mysql://u:%ffhush@h/d", "is malformed"),
            ("mariadb://u:hush@h/d", "is malformed"),
            ("hush", "is malformed"),
        ] {
            assert!(refusal(url).contains(part), "{url}: {}", refusal(url));
        }
    }

    #[test]
    fn users_hosts_and_databases_are_read_as_they_are_meant() {
        let read = |url: &str| {
            let options = server_at(url).unwrap();
            (
                options.get_username().to_owned(),
                options.get_host().to_owned(),
                options.get_port(),
                options.get_database().unwrap().to_owned(),
            )
        };
        let expected = |user: &str, host: &str, port, name: &str| {
            (user.into(), host.into(), port, name.into())
        };
        for (url, user, host, port, name) in [
            ("mysql://u@h/d", "u", "h", 3306, "d"),
            ("mysql://a%40b:p%2F%3F@h:1/d%20e", "a@b", "h", 1, "d e"),
            ("mysql://u:p@q@h/d", "u", "h", 3306, "d"),
            ("mysql://u@[::1]:2/d", "u", "::1", 2, "d"),
            ("mysql://u@127.0.0.1/d", "u", "127.0.0.1", 3306, "d"),
        ] {
            assert_eq!(read(url), expected(user, host, port, name), "{url}");
        }
    }
}
