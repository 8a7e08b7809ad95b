//! Tokens grow, whoever takes the key next, and in which way.

use lock_testkit::servers::{SqlServer, SqlVendor};

use crate::{BOTH, LONG, connect, exclusive, take_soon};

#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_when_leases_and_row_locks_take_turns() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::start(vendor);
        let (mut locks, mut last) = (Vec::new(), 0);
        for hold in [BOTH, BOTH].concat() {
            locks.push(connect(&server, hold).await);
        }
        for round in 0..40 {
            let guard = take_soon(&locks[round % 4], exclusive("k", LONG)).await;
            let token = guard.token().value();
            assert!(
                token > last,
                "{vendor:?}: {token} after {last}, round {round}"
            );
            last = token;
            guard.release().await.expect("the server runs");
        }
    }
}
