//! The cost of an uncontended lock and release, compared with the cheapest raw statements:
//!
//! - a lease with two `UPDATE`s in autocommit mode, on a row that exists;
//! - a row lock with `BEGIN`, `SELECT … FOR UPDATE` and `ROLLBACK`.
//!
//! Both versions use the same client library and take turns in one process. The benchmark prints
//! every round; its result is the median.
//!
//! `cargo bench -p lock-mysql --bench uncontended` starts a private server, unless
//! `LOCK_BENCH_MYSQL=mysql://…` names another server.

use lock_core::DistributedLockExt;
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::Comparison;
use lock_testkit::servers::{SqlServer, SqlVendor};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, MySqlConnection, raw_sql};

const BLOCK: usize = 100;

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
    let keys: Vec<_> = (0..BLOCK).map(|number| format!("bench/{number}")).collect();
    for hold in [MySqlHold::Lease, MySqlHold::Row] {
        let locks = MySqlLock::connect(MySqlConfig::new(&url).with_hold(hold)).await?;
        let options: MySqlConnectOptions = url.parse()?;
        let mut raw = Raw {
            connection: options.disable_statement_logging().connect().await?,
            hold,
        };
        let lock_raw = async |number: usize| raw.lock_and_release(&keys[number]).await;
        let lock_ours = async |number: usize| {
            locks.lock(&keys[number]).await?.release().await?;
            Ok(())
        };
        Comparison::new(BLOCK)
            .run(&format!("{hold:?}"), lock_raw, lock_ours)
            .await?;
    }
    Ok(())
}

/// The cheapest raw statements, on rows that the first round of polylock has made.
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
