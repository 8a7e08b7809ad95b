//! Rows of keys that nobody has used for long are purged in the background.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::{Backoff, Result};

use crate::error::{Failure, no_answer};
use crate::layout::{FLOOR_ROW, Layout, hexadecimal, microseconds};
use crate::pool::Pool;
use crate::request::Request;
use crate::server::MAY_WRITE;
use crate::session::{Answer, Fields};
use crate::statements::NOW;

/// How often it is looked for such rows: eight times as often as they get old, within these.
const SOONEST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_secs(60 * 60);

/// How many rows go in one transaction.
const BATCH: usize = 200;

/// How long a request may take, and how long the server keeps the transaction of a client that stands
/// still in the middle of it, in seconds.
const LIMIT_SECONDS: u64 = 2;
const LIMIT: Duration = Duration::from_secs(LIMIT_SECONDS);

/// Purges the rows of one table, as long as the connections are there.
///
/// A row takes the number of its key's last grant along, so that number is first written down in the
/// floor row, from which the numbers of a key that comes back go on. The row itself goes a round later:
/// by then, whoever makes a new one has read that.
pub(crate) struct Purge {
    pub(crate) layout: Arc<Layout>,
    pub(crate) pool: Weak<Pool>,
    /// How long a key has to be unused.
    pub(crate) after: Duration,
}

impl Purge {
    pub(crate) async fn run(self) {
        let pause = (self.after / 8).clamp(SOONEST, LATEST);
        loop {
            // Drawn anew each time, so that clients that started together do not all look at once.
            tokio::time::sleep(Backoff::new(pause, pause).next_pause()).await;
            let Some(pool) = self.pool.upgrade() else {
                return;
            };
            if let Err(error) = self.round(&pool).await {
                tracing::debug!(%error, "unused keys are not purged; trying again later");
            }
        }
    }

    async fn round(&self, pool: &Arc<Pool>) -> Result<()> {
        let find = format!("{MAY_WRITE};{}", self.find());
        let old = self.ask(pool, find).await?;
        let (mut floor, mut purgeable) = (0, Vec::new());
        for row in old.rows() {
            let (token, written) = (row.value::<u64>(1)?, row.value::<u64>(2)?);
            floor = token.max(floor);
            if token <= written {
                purgeable.push(hexadecimal(row.value(0)?));
            }
        }
        if floor > 0 {
            self.ask(pool, self.write_floor(floor)).await?;
        }
        for keys in purgeable.chunks(BATCH) {
            self.remove(pool, keys).await?;
        }
        Ok(())
    }

    /// Removes the rows that are still unused and that nobody has locked.
    async fn remove(&self, pool: &Arc<Pool>, keys: &[String]) -> Result<()> {
        let removing = async {
            let session = pool.lend(LIMIT).await?;
            let request = Request::leaving_open(pool, session, self.lock(keys));
            let (session, locked) = request.await;
            let locked = locked.map_err(Failure::into_error)?;
            let literal = |row: Fields<'_>| row.value::<&[u8]>(0).map(hexadecimal);
            let keys = locked.rows().map(literal).collect::<Result<Vec<_>>>()?;
            if keys.is_empty() {
                return Ok(());
            }
            // The connection is not used again, since the server ends it soon.
            let request = Request::leaving_open(pool, session, self.delete(&keys));
            request.await.1.map(|_| ()).map_err(Failure::into_error)
        };
        match pool.patrol.within(LIMIT * 2, removing).await {
            Some(removed) => removed,
            None => Err(no_answer(LIMIT * 2)),
        }
    }

    async fn ask(&self, pool: &Arc<Pool>, statements: String) -> Result<Answer> {
        let answer = pool.ask(statements, LIMIT).await;
        answer.map_err(Failure::into_error)
    }

    /// What makes a row old enough.
    fn is_unused(&self) -> String {
        let after = microseconds(self.after);
        format!(
            "expires < {NOW} - INTERVAL {after} MICROSECOND AND k <> {FLOOR_ROW} AND {}",
            self.layout.has_no_holder()
        )
    }

    /// Old rows, with the number that is written down in the floor row so far.
    fn find(&self) -> String {
        let (locks, is_unused) = (&self.layout.locks, self.is_unused());
        format!(
            "SELECT k, token, CAST(COALESCE((SELECT token FROM {locks} WHERE k = {FLOOR_ROW}), 0) AS UNSIGNED) FROM {locks} AS locks WHERE {is_unused} LIMIT 10000"
        )
    }

    fn write_floor(&self, floor: u64) -> String {
        format!(
            "INSERT INTO {} (k, token, expires) VALUES ({FLOOR_ROW}, {floor}, {NOW}) ON DUPLICATE KEY UPDATE token = GREATEST(token, {floor})",
            self.layout.locks
        )
    }

    fn lock(&self, keys: &[String]) -> String {
        format!(
            "SET SESSION wait_timeout = {LIMIT_SECONDS};START TRANSACTION;SELECT k FROM {} AS locks WHERE k IN ({}) AND {} ORDER BY k FOR UPDATE SKIP LOCKED",
            self.layout.locks,
            keys.join(", "),
            self.is_unused()
        )
    }

    fn delete(&self, keys: &[String]) -> String {
        let (locks, holders, keys) = (&self.layout.locks, &self.layout.holders, keys.join(", "));
        format!(
            "DELETE FROM {locks} WHERE k IN ({keys});DELETE FROM {holders} WHERE k IN ({keys});COMMIT"
        )
    }
}
