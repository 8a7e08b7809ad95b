//! The ttls that a server grants.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, LockRequest, Mode};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::steady;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::{connect, request, take};

#[test]
fn a_ttl_is_what_the_server_gives_or_refused_with_what_it_would_give() {
    steady(async || {
        let server = ZooKeeperServer::start_with(&["tickTime=2000", "maxSessionTimeout=40000"]);
        let locks = connect(&server, "/ttls").await;
        let wanted = |seconds| request("k", Mode::Exclusive).with_ttl(Duration::from_secs(seconds));
        let short: LockRequest = wanted(3).without_waiting();
        let error = locks.acquire(short).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("4 s"), "{error}");
        let exact = take(&locks, wanted(4)).await;
        let remaining = exact.remaining();
        assert!(
            remaining <= Duration::from_secs(3),
            "{remaining:?} is not safe"
        );
        assert!(remaining > Duration::from_millis(2_500), "{remaining:?}");
        exact.release().await.unwrap();
        let shortened = take(&locks, wanted(3_600)).await;
        let remaining = shortened.remaining();
        assert!(remaining <= Duration::from_secs(38), "{remaining:?}");
        assert!(remaining > Duration::from_secs(36), "{remaining:?}");
        shortened.release().await.unwrap();
    });
}

#[test]
fn a_server_that_cannot_give_the_default_ttl_is_refused_at_connect() {
    steady(async || {
        let server =
            ZooKeeperServer::start_with(&["minSessionTimeout=60000", "maxSessionTimeout=90000"]);
        let refused = ZooKeeperLock::connect(ZooKeeperConfig::new(server.address())).await;
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("use 1 min or more"), "{error}");
    });
}
