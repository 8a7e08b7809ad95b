//! Users and certificates for the conformance cases.

use std::sync::OnceLock;

use lock_testkit::servers::{Authority, SqlServer};

const DOCUMENTED: &str = include_str!("../../src/permissions.md");

/// Returns the authority that signs the servers' certificates.
pub(crate) fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();

    AUTHORITY.get_or_init(Authority::new)
}

/// Creates the documented tables and user in the database `app`.
pub(crate) fn create_locker(server: &SqlServer) {
    let mut statements = DOCUMENTED
        .split("```")
        .filter_map(|part| part.strip_prefix("sql\n"));
    let tables = statements
        .next()
        .expect("the documentation shows the tables");
    let user = statements
        .next()
        .expect("the documentation shows the user's rights");
    assert!(tables.contains("CREATE TABLE locks_holders") && user.contains("GRANT"));
    server.execute(&format!("CREATE DATABASE app; USE app; {tables}; {user}"));
}
