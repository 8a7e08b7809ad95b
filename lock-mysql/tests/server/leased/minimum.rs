//! Leases that are given back before their minimum hold is over.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, LockKey, LockRequest, Mode};
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;

use crate::{connect, row};

const MINIMUM: Duration = Duration::from_secs(10);

/// Returns the time in seconds until the key's row expires.
fn left(server: &SqlServer, key: &str) -> i64 {
    let question = format!(
        "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expires) FROM locks WHERE k = {}",
        row(key)
    );
    let answer = server.execute(&question);
    answer.trim().parse().expect("a number")
}

#[test]
fn a_release_leaves_the_rest_of_the_minimum_on_the_server() {
    for vendor in SqlVendor::available() {
        steady(async || {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Lease).await;
            for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(2).unwrap()] {
                let key = format!("{mode:?}");
                let request = LockRequest::new(LockKey::new(&*key).unwrap(), mode)
                    .with_ttl(MINIMUM * 10)
                    .holding_at_least(MINIMUM);
                let guard = locks.acquire(request).await.unwrap().unwrap();
                assert_eq!(guard.release().await.unwrap(), Released::Released);
                let left = left(&server, &key);
                assert!((0..=10).contains(&left), "{mode:?}: {left} s left");
            }
        });
    }
}

/// A renewal would otherwise begin the ttl anew, which is shorter than what is left.
#[test]
fn a_renewal_leaves_the_rest_of_the_minimum_on_the_server() {
    const TTL: Duration = Duration::from_secs(1);
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(&server, MySqlHold::Lease).await;
        let mut guards = Vec::new();
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(2).unwrap()] {
            let request = LockRequest::new(LockKey::new(format!("{mode:?}")).unwrap(), mode)
                .with_ttl(TTL)
                .holding_at_least(MINIMUM);
            guards.push(locks.acquire(request).await.unwrap().unwrap());
        }
        tokio::time::sleep(TTL * 2).await;
        for guard in &guards {
            assert!(guard.is_held());
            let left = left(&server, guard.key().as_str());
            assert!((5..=8).contains(&left), "{:?}: {left} s left", guard.key());
        }
    });
}
