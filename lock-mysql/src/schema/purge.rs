//! The purge: deletes rows of keys that have been unused for long, in the background.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::backend::{Backoff, BatchSize, Clock, HumanDuration};
use lock_core::{ErrorKind, Result};

use crate::connection::pool::Pool;
use crate::connection::request::Request;
use crate::connection::session::{Fields, StatementResults};
use crate::error::{Failure, no_answer, unavailable};
use crate::schema::grant_clock::GRANT_CLOCK;
use crate::schema::literals::{FLOOR_ROW, NOW, hexadecimal, microseconds};
use crate::schema::names::Names;
use crate::server_checks::MAY_WRITE;

/// Bounds of the interval between two rounds, which is an eighth of `purge_after`.
const SOONEST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_secs(60 * 60);

/// Minimum time without a complete round after which the purge logs a warning.
const BEHIND_MIN: Duration = Duration::from_secs(60);

/// Number of rows that one packet examines.
const PAGE: usize = 5000;

/// Maximum number of rows that one transaction deletes.
const BATCH: usize = 200;

/// Time limit of a request, and `wait_timeout` of a transaction, in seconds. The server ends the
/// transaction of a client that stalls within it.
const LIMIT_SECONDS: u64 = 2;
const LIMIT: Duration = Duration::from_secs(LIMIT_SECONDS);

/// Time between raising the floor and deleting the first row. No request lasts as long.
///
/// Requests are answered within 2 s, or given up and ended within 2 s more. The server waits 1 s
/// for a row.
const SETTLED: Duration = Duration::from_secs(5);

/// The purge of one table, which runs as long as the client has its connections.
///
/// A row stores the number of its key's last grant. So the purge first raises the floor row to this
/// number, and a key that comes back continues from the floor.
///
/// Invariant: a key that comes back has greater numbers. Why: rows above the floor stay. A request
/// that may have read an older floor has created its row before the first deletion. Breaks if: the
/// purge relies on a floor that another client has just written.
pub(crate) struct Purge {
    names: Arc<Names>,
    pool: Weak<Pool>,
    /// The time for which a key has to be unused.
    after: Duration,
    batch: BatchSize,
    /// The greatest token that a row had above the floor.
    above: u64,
}

impl Purge {
    pub(crate) fn new(names: Arc<Names>, pool: &Arc<Pool>, after: Duration) -> Self {
        Self {
            names,
            pool: Arc::downgrade(pool),
            after,
            batch: BatchSize::new(BATCH),
            above: 0,
        }
    }

    pub(crate) async fn run(mut self) {
        let pause = (self.after / 8).clamp(SOONEST, LATEST);
        let behind = self.after.max(pause * 8).max(BEHIND_MIN);
        let (mut done, mut was_denied) = (Clock::Boot.now(), false);
        loop {
            // A new random pause for each round, so that clients that started together do not purge
            // at once.
            tokio::time::sleep(Backoff::new(pause, pause).next_pause()).await;
            let outcome = self.round().await;
            if self.pool.strong_count() == 0 {
                return;
            }
            let is_denied = matches!(&outcome, Err(error) if error.kind() == ErrorKind::Denied);
            if let Err(error) = &outcome {
                if is_denied && !was_denied {
                    tracing::warn!(%error, "mysql: unused keys stay in the table while this user may not delete rows: allow it, purge them offline as documented, or turn purge_after off");
                }
                tracing::debug!(%error, "mysql: unused keys are not purged, trying again");
            }
            was_denied = is_denied;
            let now = Clock::Boot.now();
            let (took, is_behind) = (now.since(done), !is_denied && now.since(done) > behind);
            if is_behind {
                tracing::warn!(
                    table = %self.names.table,
                    "mysql: no round of the purge was done within {}, so the table may grow",
                    HumanDuration(took)
                );
            }
            if outcome.is_ok() || is_denied || is_behind {
                done = now;
            }
        }
    }

    /// Examines the whole table once, and deletes all unused rows.
    async fn round(&mut self) -> Result<()> {
        let (mut floor, mut end) = (None, Vec::new());
        while let Some(next) = self.end_of_page(&end).await? {
            let unused = self.ask(self.find(&end, &next)).await?;
            let mut keys = Vec::new();
            for row in unused.rows() {
                let floor = match floor {
                    Some(floor) => floor,
                    None => *floor.insert(self.raise_floor().await?),
                };
                match row.value::<u64>(1)? {
                    token if token > floor => self.above = self.above.max(token),
                    _ => keys.push(hexadecimal(row.value(0)?)),
                }
            }
            let mut rest = keys.as_slice();
            while let Some(floor) = floor.filter(|_| !rest.is_empty()) {
                let (batch, later) = rest.split_at(self.batch.get().min(rest.len()));
                match self.remove(batch, floor).await {
                    Err(Failure::TooLarge(_)) if self.batch.halve(batch.len()) => continue,
                    removed => removed.map_err(Failure::into_error)?,
                }
                rest = later;
            }
            end = next;
        }
        Ok(())
    }

    /// Raises the floor above all granted tokens, and waits until no request uses an older floor.
    async fn raise_floor(&self) -> Result<u64> {
        let answer = self.ask(self.write_floor()).await?;
        tokio::time::sleep(SETTLED).await;
        Ok(answer.first_value()?.unwrap_or(0))
    }

    /// Returns the last key of the page after `end`, or `None` at the end of the table.
    async fn end_of_page(&self, end: &[u8]) -> Result<Option<Vec<u8>>> {
        let answer = self.ask(self.page(end)).await?;
        Ok(answer.first_value()?.flatten())
    }

    /// Deletes the rows that are still unused and not locked.
    async fn remove(&self, keys: &[String], floor: u64) -> Result<(), Failure> {
        let pool = self.pool()?;
        let removing = async {
            let mut session = pool.lend(LIMIT).await?;
            let wait_timeout = std::mem::replace(&mut session.wait_timeout, LIMIT_SECONDS);
            let request = Request::leaving_open(&pool, session, self.lock(keys, floor));
            let (session, locked) = request.send().await;
            let locked = locked?;
            let literal = |row: Fields<'_>| row.value::<&[u8]>(0).map(hexadecimal);
            let keys = locked.rows().map(literal).collect::<Result<Vec<_>>>()?;
            let delete = self.delete(&keys, wait_timeout);
            let (mut session, deleted) = Request::new(&pool, session, delete).send().await;
            if deleted.is_ok() {
                session.wait_timeout = wait_timeout;
            }
            deleted.map(|_| ())
        };
        match pool.deadlines.timeout(LIMIT * 2, removing).await {
            Some(removed) => removed,
            None => Err(no_answer(LIMIT * 2).into()),
        }
    }

    async fn ask(&self, statements: String) -> Result<StatementResults> {
        let answer = self.pool()?.ask(statements, LIMIT).await;
        answer.map_err(Failure::into_error)
    }

    /// Returns the pool, for one request at a time. Its connections close when the client has
    /// dropped the pool.
    fn pool(&self) -> Result<Arc<Pool>> {
        self.pool
            .upgrade()
            .ok_or_else(|| unavailable("the client is gone"))
    }

    /// Returns the condition that a row has been unused for long enough.
    fn is_unused(&self) -> String {
        let after = microseconds(self.after);
        format!(
            "expires < {NOW} - INTERVAL {after} MICROSECOND AND {}",
            self.names.has_no_holder()
        )
    }

    fn page(&self, end: &[u8]) -> String {
        format!(
            "SELECT MAX(k) FROM (SELECT k FROM {} WHERE k > {} ORDER BY k LIMIT {PAGE}) AS page",
            self.names.locks,
            hexadecimal(end)
        )
    }

    /// Selects the unused rows of a page. No page contains the floor row, whose key is empty.
    fn find(&self, end: &[u8], next: &[u8]) -> String {
        format!(
            "SELECT k, token FROM {} AS locks WHERE k > {} AND k <= {} AND {}",
            self.names.locks,
            hexadecimal(end),
            hexadecimal(next),
            self.is_unused()
        )
    }

    fn write_floor(&self) -> String {
        let (locks, above) = (&self.names.locks, self.above);
        format!(
            "{MAY_WRITE};INSERT INTO {locks} (k, token, expires) VALUES ({FLOOR_ROW}, GREATEST({GRANT_CLOCK}, {above}), {NOW}) ON DUPLICATE KEY UPDATE token = GREATEST(token, {GRANT_CLOCK}, {above});SELECT token FROM {locks} WHERE k = {FLOOR_ROW}"
        )
    }

    fn lock(&self, keys: &[String], floor: u64) -> String {
        format!(
            "{MAY_WRITE};SET SESSION wait_timeout = {LIMIT_SECONDS};START TRANSACTION;SELECT k FROM {} AS locks WHERE k IN ({}) AND token <= {floor} AND {} ORDER BY k FOR UPDATE SKIP LOCKED",
            self.names.locks,
            keys.join(", "),
            self.is_unused()
        )
    }

    /// Deletes the rows, commits, and restores the session's `wait_timeout`.
    fn delete(&self, keys: &[String], wait_timeout: u64) -> String {
        let (locks, holders) = (&self.names.locks, &self.names.holders);
        let end = format!("COMMIT;SET SESSION wait_timeout = {wait_timeout}");
        match keys.join(", ") {
            keys if keys.is_empty() => end,
            keys => format!(
                "DELETE FROM {locks} WHERE k IN ({keys});DELETE FROM {holders} WHERE k IN ({keys});{end}"
            ),
        }
    }
}
