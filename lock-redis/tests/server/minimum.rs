//! Holds that are given back before their minimum hold is over.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, LockKey, LockRequest, Mode};
use lock_testkit::servers::RedisServer;
use lock_testkit::steady;

use crate::connect;

#[test]
fn a_release_leaves_the_rest_of_the_minimum_on_the_server() {
    const MINIMUM: Duration = Duration::from_secs(10);
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(2).unwrap()] {
            let key = format!("{mode:?}");
            let request = LockRequest::new(LockKey::new(&*key).unwrap(), mode)
                .with_ttl(MINIMUM * 10)
                .holding_at_least(MINIMUM);
            let guard = locks.acquire(request).await.unwrap().unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::Released);
            let left = server.client().command(&["PTTL", &key]).unwrap().integer();
            let left = left.expect("a time");
            assert!((1..=10_000).contains(&left), "{mode:?}: {left} ms left");
        }
    });
}
