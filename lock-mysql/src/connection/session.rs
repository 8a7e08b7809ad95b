//! A connection to the server, and the requests on it.

use std::time::Duration;

use futures_util::TryStreamExt;
use lock_core::Error;
use lock_core::backend::{Clock, Moment};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Decode, Either, Executor, MySql, Row, Type};
use tokio::runtime::{self, Handle};

use crate::connection::connection_id::ConnectionId;
use crate::error::{Failure, failure, too_large, unexpected};

/// Time that a session waits for a locked row at first, in seconds.
const LOCK_WAIT: u64 = 1;

/// A connection that is ready for the next request. Dropping it closes it, which ends its
/// transaction.
pub(crate) struct Session {
    connection: MySqlConnection,
    pub(crate) connection_id: ConnectionId,
    /// `wait_timeout`: the server closes the session after this idle time, in seconds.
    pub(crate) wait_timeout: u64,
    /// `innodb_lock_wait_timeout`: the server waits this long for a locked row, in seconds.
    lock_wait: u64,
    /// True on MariaDB, where some statements and tables have other names than on MySQL.
    pub(crate) is_mariadb: bool,
    /// True if a statement can read the clock after it has got its locks.
    pub(crate) sysdate_moves: bool,
    /// Maximum number of bytes in a packet.
    packet_max: usize,
    idle_since: Moment,
    /// The runtime where the connection lives, and with which it ends.
    pub(crate) opened_on: runtime::Id,
}

/// The server's answer to one packet: a result for each of its statements.
pub(crate) struct StatementResults(Vec<StatementResult>);

#[derive(Default)]
pub(crate) struct StatementResult {
    /// The number of rows that a write found.
    pub(crate) found: u64,
    /// The last insert id.
    pub(crate) inserted: u64,
    rows: Vec<MySqlRow>,
}

impl Session {
    /// Sets up a new connection by `greeting`, and reads its answer.
    ///
    /// The answer has the connection's number, the server's name, the client's address and
    /// `wait_timeout`. Then follow whether this is MariaDB, whether `SYSDATE` moves, and the
    /// maximum size of a packet.
    pub(crate) async fn begin(
        mut connection: MySqlConnection,
        greeting: &str,
    ) -> Result<Self, Failure> {
        let answer = exchange(&mut connection, greeting).await.map_err(failure)?;
        let row = answer.nth_back(0)?.first();
        let row = row.ok_or_else(|| unexpected("without a greeting"))?;
        Ok(Self {
            connection_id: ConnectionId::new(row.value(0)?, row.value(1)?, row.value(2)?),
            wait_timeout: row.value(3)?,
            lock_wait: LOCK_WAIT,
            is_mariadb: row.value(4)?,
            sysdate_moves: row.value(5)?,
            packet_max: usize::try_from(row.value::<u64>(6)?).unwrap_or(usize::MAX),
            idle_since: Clock::Boot.now(),
            opened_on: Handle::current().id(),
            connection,
        })
    }

    /// Returns the statement that sets the idle timeout and the row-lock timeout, in seconds.
    ///
    /// Returns an empty string if the session has these timeouts already.
    pub(crate) fn set_timeouts(&mut self, idle: u64, row: Option<u64>) -> String {
        let row = row.unwrap_or(self.lock_wait);
        if (self.wait_timeout, self.lock_wait) == (idle, row) {
            return String::new();
        }
        (self.wait_timeout, self.lock_wait) = (idle, row);
        format!("SET SESSION wait_timeout = {idle}, innodb_lock_wait_timeout = {row};")
    }

    /// Sends `statements` in one packet, and reads the whole answer.
    ///
    /// A failure in the middle ends the transaction.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the rest of the answer would be read as the answer to the next packet. A
    /// [`Request`](crate::connection::request::Request) prevents this.
    pub(crate) async fn ask(&mut self, statements: &str) -> Result<StatementResults, Failure> {
        if statements.len() >= self.packet_max {
            return Err(too_large(statements.len(), self.packet_max));
        }
        let answer = match exchange(&mut self.connection, statements).await {
            Err(error @ sqlx::Error::Database(_)) => {
                let failure = failure(error);
                if !matches!(failure, Failure::TooLarge(_)) {
                    // The statements after the failure were not run, so the transaction is still
                    // open.
                    let ended = exchange(&mut self.connection, "ROLLBACK").await;
                    ended.map_err(crate::error::failure)?;
                }
                Err(failure)
            }
            answer => answer.map_err(failure),
        };
        self.idle_since = Clock::Boot.now();
        answer
    }

    /// Returns true if the server may have closed the idle session by now.
    pub(crate) fn is_stale(&self) -> bool {
        Clock::Boot.now().since(self.idle_since) > Duration::from_secs(self.wait_timeout) / 2
    }
}

async fn exchange(
    connection: &mut MySqlConnection,
    statements: &str,
) -> sqlx::Result<StatementResults> {
    // The statements contain no text of users: names are checked, and values are numbers or
    // hexadecimal literals.
    let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
    let mut answers = connection.fetch_many(statements);
    let (mut parts, mut part) = (Vec::new(), StatementResult::default());
    while let Some(answer) = answers.try_next().await? {
        match answer {
            Either::Right(row) => part.rows.push(row),
            Either::Left(done) => {
                part.found = done.rows_affected();
                part.inserted = done.last_insert_id();
                parts.push(std::mem::take(&mut part));
            }
        }
    }
    Ok(StatementResults(parts))
}

impl StatementResults {
    /// Returns the result of the `statement`-th statement, counted from the end.
    pub(crate) fn nth_back(&self, statement: usize) -> Result<&StatementResult, Error> {
        let part = self.0.iter().nth_back(statement);
        part.ok_or_else(|| unexpected("with too few parts"))
    }

    /// Returns the first field of the first row, if there is one.
    pub(crate) fn first_value<T>(&self) -> Result<Option<T>, Error>
    where
        T: for<'r> Decode<'r, MySql> + Type<MySql>,
    {
        self.rows().next().map(|row| row.value(0)).transpose()
    }

    /// Returns the rows of all statements.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Fields<'_>> {
        self.0.iter().flat_map(StatementResult::rows)
    }
}

impl StatementResult {
    pub(crate) fn rows(&self) -> impl Iterator<Item = Fields<'_>> {
        self.rows.iter().map(Fields)
    }

    pub(crate) fn first(&self) -> Option<Fields<'_>> {
        self.rows.first().map(Fields)
    }
}

/// The fields of one row.
pub(crate) struct Fields<'a>(&'a MySqlRow);

impl Fields<'_> {
    pub(crate) fn value<'r, T>(&'r self, field: usize) -> Result<T, Error>
    where
        T: Decode<'r, MySql> + Type<MySql>,
    {
        self.0
            .try_get(field)
            .map_err(|error| unexpected("with a field of another type").with_source(error))
    }
}
