//! Claims of clients that we do not know: they count as exclusive, in either direction.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, Mode};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::steady;
use lock_zookeeper::zookeeper_client::{Acls, CreateMode};
use tokio::time::timeout;

use crate::{PROMPT, admin, connect, request, take};

#[test]
fn any_claim_that_ends_in_a_number_counts_as_exclusive() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/foreign").await;
        let admin = admin(server).await;
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        admin.mkdir("/foreign/k", &container).await.unwrap();
        let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        for name in ["x-", "_c_0f0e0d0c-0b0a-0908-0706-050403020100-lease-", ""] {
            let start = format!("/foreign/k/{name}");
            let (_, sequence) = admin.create(&start, &[], &ephemeral).await.unwrap();
            for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(9).unwrap()] {
                let tried = locks.acquire(request("k", mode).without_waiting()).await;
                lock_testkit::assert_excluded!(
                    tried.unwrap().is_none(),
                    "{mode:?} beside {name:?}"
                );
            }
            let mut waiting = Box::pin(locks.acquire(request("k", Mode::Shared)));
            let early = timeout(Duration::from_millis(200), &mut waiting).await;
            lock_testkit::assert_excluded!(early.is_err(), "{early:?}");
            admin
                .delete(&format!("{start}{sequence}"), None)
                .await
                .unwrap();
            let granted = timeout(PROMPT, waiting).await.expect("woken").unwrap();
            granted.expect("no end").release().await.unwrap();
        }
    });
}

#[test]
fn other_children_are_nobody() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/nobody").await;
        let admin = admin(server).await;
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for node in [
            "/nobody",
            "/nobody/k",
            "/nobody/k/leases",
            "/nobody/k/locks",
        ] {
            let _there = admin.create(node, &[], &persistent).await;
        }
        let guard = take(&locks, request("k", Mode::Exclusive)).await;
        let nested = locks.try_lock("k/leases").await.unwrap();
        assert!(nested.is_some());
        guard.release().await.unwrap();
    });
}
