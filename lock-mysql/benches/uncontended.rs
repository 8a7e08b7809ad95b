//! What an uncontended lock and release cost, against the statements that do the least, sent raw over
//! the same client library and interleaved in one process:
//!
//! - a lease against two `UPDATE`s that commit by themselves, on a row that exists;
//! - a row lock against `BEGIN`, `SELECT … FOR UPDATE` and `ROLLBACK`.
//!
//! `cargo bench -p lock-mysql --bench uncontended`; `LOCK_BENCH_MYSQL=mysql://…` measures a server of
//! yours instead of a private one. Every round is printed; the verdict is the median.

use std::time::Duration;

use lock_core::DistributedLockExt;
use lock_mysql::sqlx::{AssertSqlSafe, ConnectOptions, Executor, MySqlConnection, raw_sql};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock, sqlx};
use lock_testkit::servers::{SqlServer, SqlVendor};
use sqlx::mysql::MySqlConnectOptions;
use tokio::time::Instant;

const ROUNDS: usize = 5;

/// Within a round the two take turns in blocks, so that a drift of the machine hits both alike.
const BLOCKS: u32 = 20;
const BLOCK: u32 = 100;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let given = std::env::var("LOCK_BENCH_MYSQL").ok();
    let server = given
        .is_none()
        .then(|| SqlServer::start(SqlVendor::MariaDb));
    let url = given
        .or(server.as_ref().map(SqlServer::url))
        .unwrap_or_default();
    for hold in [MySqlHold::Lease, MySqlHold::Row] {
        let locks = MySqlLock::connect(MySqlConfig::new(&url).with_hold(hold)).await?;
        let options: MySqlConnectOptions = url.parse()?;
        let mut raw = Raw {
            connection: options.disable_statement_logging().connect().await?,
            hold,
        };
        compare(&locks, &mut raw).await?;
    }
    Ok(())
}

async fn compare(locks: &MySqlLock, raw: &mut Raw) -> Result<(), Failure> {
    // Makes the rows, and opens all connections.
    time_ours(locks, &mut Vec::new()).await?;
    round(locks, raw).await?;
    println!("{:?}, {} a round, one task", raw.hold, BLOCKS * BLOCK);
    println!("round   raw p50   ours p50   ratio of p50   raw mean   ours mean   ratio of means");
    let (mut p50_ratios, mut mean_ratios) = (Vec::new(), Vec::new());
    for number in 1..=ROUNDS {
        let (theirs, ours) = round(locks, raw).await?;
        let (p50_ratio, mean_ratio) = (ours.p50 / theirs.p50, ours.mean / theirs.mean);
        println!(
            "{number:>5} {:>7.1}us {:>8.1}us {p50_ratio:>14.3} {:>8.1}us {:>9.1}us {mean_ratio:>16.3}",
            theirs.p50, ours.p50, theirs.mean, ours.mean
        );
        p50_ratios.push(p50_ratio);
        mean_ratios.push(mean_ratio);
    }
    println!(
        "median of {ROUNDS}: p50 {:.3} times raw, mean {:.3} times raw",
        median(p50_ratios),
        median(mean_ratios)
    );
    Ok(())
}

async fn round(locks: &MySqlLock, raw: &mut Raw) -> Result<(Timing, Timing), Failure> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for block in 0..BLOCKS {
        if block % 2 == 0 {
            time_raw(raw, &mut theirs).await?;
            time_ours(locks, &mut ours).await?;
        } else {
            time_ours(locks, &mut ours).await?;
            time_raw(raw, &mut theirs).await?;
        }
    }
    Ok((Timing::of(theirs), Timing::of(ours)))
}

/// Microseconds.
struct Timing {
    p50: f64,
    mean: f64,
}

impl Timing {
    fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let p50 = samples.get(samples.len() / 2).copied().unwrap_or_default();
        let total: Duration = samples.iter().sum();
        Self {
            p50: p50.as_secs_f64() * 1e6,
            mean: total.as_secs_f64() * 1e6 / samples.len().max(1) as f64,
        }
    }
}

async fn time_ours(locks: &MySqlLock, samples: &mut Vec<Duration>) -> Result<(), Failure> {
    for number in 0..BLOCK {
        let key = format!("bench/{number}");
        let started = Instant::now();
        let guard = locks.lock(&key).await?;
        guard.release().await?;
        samples.push(started.elapsed());
    }
    Ok(())
}

/// The least that can be sent, on rows that our own first round has made.
struct Raw {
    connection: MySqlConnection,
    hold: MySqlHold,
}

impl Raw {
    async fn ask(&mut self, statement: String) -> Result<u64, Failure> {
        let done = self.connection.execute(raw_sql(AssertSqlSafe(statement)));
        Ok(done.await?.rows_affected())
    }

    async fn lock_and_release(&mut self, key: &str) -> Result<(), Failure> {
        let mine = "owner = x'00000000000000000000000000000001'";
        if self.hold == MySqlHold::Row {
            self.ask("BEGIN".to_owned()).await?;
            self.ask(format!("SELECT k FROM locks WHERE k = '{key}' FOR UPDATE"))
                .await?;
            self.ask("ROLLBACK".to_owned()).await?;
            return Ok(());
        }
        let now = "UTC_TIMESTAMP(6)";
        let taken = self
            .ask(format!("UPDATE locks SET {mine}, expires = {now} + INTERVAL 30 SECOND WHERE k = '{key}' AND expires <= {now}"))
            .await?;
        let released = self
            .ask(format!(
                "UPDATE locks SET owner = NULL, expires = {now} WHERE k = '{key}' AND {mine}"
            ))
            .await?;
        if (taken, released) != (1, 1) {
            return Err("the raw lock was not free".into());
        }
        Ok(())
    }
}

async fn time_raw(raw: &mut Raw, samples: &mut Vec<Duration>) -> Result<(), Failure> {
    for number in 0..BLOCK {
        let key = format!("bench/{number}");
        let started = Instant::now();
        raw.lock_and_release(&key).await?;
        samples.push(started.elapsed());
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
