//! The floor on MySQL and MariaDB: the statements of a lease, or a row that a transaction locks.
//!
//! Each statement of a lease is one packet and one commit.

use std::fmt::Write;
use std::sync::Arc;

use polylock::mysql::sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use polylock::mysql::sqlx::{AssertSqlSafe, ConnectOptions, Executor, raw_sql};
use tokio::sync::Mutex;

use super::was_not_free;
use crate::bench::store::Location;
use crate::problem::Problem;

const NOW: &str = "UTC_TIMESTAMP(6)";

/// The ttl of a lease, in microseconds.
const TTL: u64 = 30_000_000;

/// The clock that numbers grants.
const GRANT_CLOCK: &str =
    "CAST(GREATEST(TIMESTAMPDIFF(MICROSECOND, '2025-01-01', SYSDATE(6)) DIV 4, 0) AS UNSIGNED)";

type Connection = Arc<Mutex<MySqlConnection>>;

/// The floor, with the number of connections that the backend would open.
pub(crate) struct Floor {
    connections: Vec<Connection>,
    statements: Statements,
    rows: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct Statements {
    table: String,
    is_row: bool,
}

pub(crate) struct RawLock {
    connection: Connection,
    requests: Vec<String>,
    is_row: bool,
}

impl Floor {
    pub(super) async fn open(location: &Location) -> Result<Self, Problem> {
        let is_row = location.mysql_hold() == "row";
        let usual = if is_row { 64 } else { 8 };
        let setting = |name| location.settings.get(name);
        let count = setting("connections").and_then(|count| count.parse().ok());
        let options: MySqlConnectOptions = location.url.parse()?;
        let options = options.disable_statement_logging();
        let mut connections = Vec::new();
        for _ in 0..count.unwrap_or(usual) {
            connections.push(Arc::new(Mutex::new(options.connect().await?)));
        }
        let table = setting("table").map_or("locks", String::as_str);
        Ok(Self {
            connections,
            statements: Statements {
                table: table.to_owned(),
                is_row,
            },
            rows: Mutex::default(),
        })
    }

    pub(super) fn commands(&self) -> Vec<String> {
        self.statements.requests("'key'")
    }

    /// Creates a lock and its row.
    pub(super) async fn lock(&self, key: &str) -> Result<RawLock, Problem> {
        let mut hexadecimal = "x'".to_owned();
        for byte in format!("{key}/raw").bytes() {
            write!(hexadecimal, "{byte:02x}")?;
        }
        hexadecimal += "'";
        let mut rows = self.rows.lock().await;
        let connection = &self.connections[rows.len() % self.connections.len()];
        let table = &self.statements.table;
        let create = format!(
            "INSERT INTO {table} (k, token, expires) VALUES ({hexadecimal}, 0, {NOW}) ON DUPLICATE KEY UPDATE token = token"
        );
        ask(connection, &create).await?;
        rows.push(hexadecimal.clone());
        Ok(RawLock {
            connection: Arc::clone(connection),
            requests: self.statements.requests(&hexadecimal),
            is_row: self.statements.is_row,
        })
    }

    pub(super) async fn finish(self) -> Result<(), Problem> {
        let rows = self.rows.into_inner();
        let Some(connection) = self.connections.first().filter(|_| !rows.is_empty()) else {
            return Ok(());
        };
        let (table, rows) = (&self.statements.table, rows.join(", "));
        ask(
            connection,
            &format!("DELETE FROM {table} WHERE k IN ({rows})"),
        )
        .await?;
        Ok(())
    }
}

impl Statements {
    /// Returns the statements of a lock and its release, one per packet.
    fn requests(&self, key: &str) -> Vec<String> {
        let table = &self.table;
        if self.is_row {
            return vec![
                "BEGIN".to_owned(),
                format!("SELECT token FROM {table} WHERE k = {key} FOR UPDATE"),
                "ROLLBACK".to_owned(),
            ];
        }
        let owner = "x'0123456789abcdef0123456789abcdef'";
        vec![
            format!(
                "INSERT INTO {table} (k, token, expires)
SELECT k, token, expires FROM {table} AS free WHERE k = {key} AND (expires <= {NOW} OR (mode = 'x' AND owner IS NULL) OR owner = {owner} OR LAST_INSERT_ID(token) = 0) FOR UPDATE
ON DUPLICATE KEY UPDATE mode = 'x', token = LAST_INSERT_ID(IF({table}.owner <=> {owner} AND {table}.expires > {NOW}, {table}.token, GREATEST({table}.token + 1, {GRANT_CLOCK}))), owner = {owner}, ttl = {TTL}, expires = {NOW} + INTERVAL {TTL} MICROSECOND"
            ),
            format!(
                "UPDATE {table} SET owner = NULL, expires = {NOW} WHERE k = {key} AND owner = {owner} AND expires > {NOW}"
            ),
        ]
    }
}

impl RawLock {
    pub(super) async fn lock_and_release(&mut self) -> Result<(), Problem> {
        if self.is_row {
            // Keep the connection until the transaction ends, so that no other task uses it.
            let mut connection = self.connection.lock().await;
            for request in &self.requests {
                send(&mut connection, request).await?;
            }
            return Ok(());
        }
        for request in &self.requests {
            if ask(&self.connection, request).await? == 0 {
                return Err(was_not_free());
            }
        }
        Ok(())
    }
}

async fn ask(connection: &Connection, request: &str) -> Result<u64, Problem> {
    send(&mut *connection.lock().await, request).await
}

/// Sends a statement; returns the number of changed rows.
async fn send(connection: &mut MySqlConnection, request: &str) -> Result<u64, Problem> {
    let statement = raw_sql(AssertSqlSafe(request.to_owned()));
    Ok(connection.execute(statement).await?.rows_affected())
}
