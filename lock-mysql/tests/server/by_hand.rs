//! Transactions of an operator, in the `mariadb` client.

use lock_testkit::servers::{SqlServer, SqlSession};

use crate::row;

/// Begins a transaction that locks the row of `key`, until the session is dropped. Creates a
/// missing row.
pub(crate) fn locking(server: &SqlServer, key: &str) -> SqlSession {
    let mut session = server.session();
    lock(&mut session, key);
    session
}

/// Locks the row of `key` in the open transaction, or in a new one.
pub(crate) fn lock(session: &mut SqlSession, key: &str) {
    let row = row(key);
    session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET autocommit = 0; INSERT INTO locks (k, token, expires) VALUES ({row}, 0, '2025-01-01') ON DUPLICATE KEY UPDATE ttl = ttl; SELECT token FROM locks WHERE k = {row} FOR UPDATE"));
}
