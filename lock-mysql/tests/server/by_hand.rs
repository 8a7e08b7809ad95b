//! Somebody else's transactions, in the `mariadb` client.

use lock_testkit::servers::{SqlServer, SqlSession};

use crate::row;

/// Begins a transaction that has locked the row of `key`, which is made if it is not there; until
/// the session is dropped.
pub(crate) fn locking(server: &SqlServer, key: &str) -> SqlSession {
    let mut session = server.session();
    lock(&mut session, key);
    session
}

/// Locks the row of `key`, in the transaction that is open or in a new one.
pub(crate) fn lock(session: &mut SqlSession, key: &str) {
    let row = row(key);
    session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET autocommit = 0; INSERT INTO locks (k, token, expires) VALUES ({row}, 0, '2025-01-01') ON DUPLICATE KEY UPDATE ttl = ttl; SELECT token FROM locks WHERE k = {row} FOR UPDATE"));
}
