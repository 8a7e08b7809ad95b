//! How a connection is opened.

use std::str::FromStr;
use std::time::Duration;

use lock_core::{Error, ErrorKind, Patrol, Result, Tls};
use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::MySqlConfig;
use crate::error::{BACKEND, Failure, no_answer, translate};
use crate::identity::SERVER;
use crate::roots::platform_roots;
use crate::session::Session;

/// How long opening a connection may take.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The grants' clock: units of 4 microseconds since 2025, which lasts beyond 2090 in the 49 bits that
/// a token has for it. More grants of one key than that in a second are not to be had.
pub(crate) const GRANT_CLOCK: &str = "CAST(GREATEST(TIMESTAMPDIFF(MICROSECOND, '2025-01-01', UTC_TIMESTAMP(6)) DIV 4, 0) AS UNSIGNED)";

/// How every session is set up, whatever the server's defaults are: no locks on the gaps between rows,
/// nothing truncated silently, row locks waited for in slices of a second, no limit on what is selected,
/// and (only MariaDB has it) open transactions left alone as long as their sessions are.
const SET_UP: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET SESSION autocommit = 1, completion_type = 'NO_CHAIN', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 1, sql_select_limit = 18446744073709551615, group_concat_max_len = 1024, sql_big_selects = 1, sql_safe_updates = 0 /*M!100300 , idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0 */";

/// What it takes to open a session.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    options: MySqlConnectOptions,
    greeting: String,
}

impl Wire {
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
        // Its error may quote the password.
        let options = MySqlConnectOptions::from_str(&url).map_err(|_| not_a_url())?;
        if options.get_database().is_none_or(str::is_empty) {
            return Err(config_error(
                "the url names no database: write it like mysql://user:password@host:3306/database",
            ));
        }
        let options = options
            .disable_statement_logging()
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .statement_cache_capacity(0);
        Ok(Self {
            options: if verified {
                with_tls(options, &config.tls)?
            } else {
                options.ssl_mode(MySqlSslMode::Preferred)
            },
            greeting: format!(
                "{SET_UP};SELECT CONNECTION_ID(), {SERVER}, CAST(@@wait_timeout AS UNSIGNED), VERSION() LIKE '%MariaDB%'"
            ),
        })
    }

    /// Opens a session. The connection lives on the runtime that this is called on.
    pub(crate) async fn open(&self, patrol: &Patrol) -> Result<Session> {
        let opening = async {
            let connection = self.options.connect().await.map_err(translate)?;
            let session = Session::begin(connection, &self.greeting).await;
            session.map_err(Failure::into_error)
        };
        match patrol.within(CONNECT_LIMIT, opening).await {
            Some(opened) => opened,
            None => Err(no_answer(CONNECT_LIMIT)),
        }
        .map_err(|error| error.with_operation("connect"))
    }
}

fn with_tls(options: MySqlConnectOptions, tls: &Tls) -> Result<MySqlConnectOptions> {
    let options = options.ssl_mode(MySqlSslMode::VerifyIdentity);
    let options = match &tls.ca {
        Some(ca) => options.ssl_ca(readable("tls_ca", ca)?),
        None => options.ssl_ca_from_pem(platform_roots()),
    };
    Ok(match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => options
            .ssl_client_cert(readable("tls_cert", cert)?)
            .ssl_client_key(readable("tls_key", key)?),
        _ => options,
    })
}

/// The driver reads the file again for every connection; what is wrong with it is better told now.
fn readable<'a>(setting: &str, path: &'a std::path::Path) -> Result<&'a std::path::Path> {
    match std::fs::read(path) {
        Ok(_) => Ok(path),
        Err(source) => Err(config_error(format!(
            "{setting}: {} cannot be read ({source}): name a PEM file",
            path.display()
        ))
        .with_source(source)),
    }
}

fn not_a_url() -> Error {
    config_error("the url is none: write it like mysql://user:password@host:3306/database")
}

pub(crate) fn config_error(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, what).with_backend(BACKEND)
}
