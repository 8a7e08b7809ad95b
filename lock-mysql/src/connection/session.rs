//! One connection to the server, and what is asked on it.

use std::time::Duration;

use futures_util::TryStreamExt;
use lock_core::Error;
use lock_core::backend::{Clock, Moment};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Decode, Either, Executor, MySql, Row, Type};
use tokio::runtime::{self, Handle};

use crate::connection::connection_id::ConnectionId;
use crate::error::{Failure, failure, too_large, unexpected};

/// The time that a session waits for a row that is locked at first, in seconds.
const LOCK_WAIT: u64 = 1;

/// A connection that is ready for the next request. Dropping it closes it, which ends its
/// transaction.
pub(crate) struct Session {
    connection: MySqlConnection,
    /// Which one it is.
    pub(crate) connection_id: ConnectionId,
    /// The time that the server leaves it alone while nothing is asked, in seconds.
    pub(crate) wait_timeout: u64,
    /// The time that the server waits for a row that is locked, in seconds.
    lock_wait: u64,
    /// MariaDB and MySQL have different words for some things.
    pub(crate) is_mariadb: bool,
    /// True if a statement can read the clock after it has got its locks.
    pub(crate) sysdate_moves: bool,
    /// The number of bytes that a packet may have.
    packet_max: usize,
    idle_since: Moment,
    /// Where it lives: it dies with that runtime.
    pub(crate) opened_on: runtime::Id,
}

/// The answer of the server to one packet: a part for each of its statements.
pub(crate) struct StatementResults(Vec<StatementResult>);

#[derive(Default)]
pub(crate) struct StatementResult {
    /// The number of rows that a write has found.
    pub(crate) found: u64,
    /// The id that it says that it has inserted.
    pub(crate) inserted: u64,
    rows: Vec<MySqlRow>,
}

impl Session {
    /// Makes a fresh connection ready: `greeting` answers its number, whose, where it comes from,
    /// how long it may be idle, whether this is MariaDB, whether `SYSDATE` moves, and how large a
    /// packet may be.
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

    /// Returns what sets how long the server leaves the session alone, and how long it waits for a
    /// row, in seconds.
    pub(crate) fn set_timeouts(&mut self, idle: u64, row: Option<u64>) -> String {
        let row = row.unwrap_or(self.lock_wait);
        if (self.wait_timeout, self.lock_wait) == (idle, row) {
            return String::new();
        }
        (self.wait_timeout, self.lock_wait) = (idle, row);
        format!("SET SESSION wait_timeout = {idle}, innodb_lock_wait_timeout = {row};")
    }

    /// Sends `statements` in one packet and reads all that is answered. A failure in the middle
    /// ends the transaction.
    ///
    /// Not cancel safe: the rest of the answer would be taken for the next one's. A
    /// [`DetachedRequest`](crate::connection::detached_request::DetachedRequest) takes care of it.
    pub(crate) async fn ask(&mut self, statements: &str) -> Result<StatementResults, Failure> {
        if statements.len() >= self.packet_max {
            return Err(too_large(statements.len(), self.packet_max));
        }
        let answer = match exchange(&mut self.connection, statements).await {
            Err(error @ sqlx::Error::Database(_)) => {
                let failure = failure(error);
                if !matches!(failure, Failure::TooLarge(_)) {
                    // The statements behind it were not run, so the transaction is still open.
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

    /// Returns true if the server may have closed it by now.
    pub(crate) fn is_stale(&self) -> bool {
        Clock::Boot.now().since(self.idle_since) > Duration::from_secs(self.wait_timeout) / 2
    }
}

async fn exchange(
    connection: &mut MySqlConnection,
    statements: &str,
) -> sqlx::Result<StatementResults> {
    // No text of users is in them: names are checked, and values are numbers or written in
    // hexadecimal.
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
    /// Returns what the `statement`-th one answered, counted from the end.
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

    /// The rows of all statements.
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
