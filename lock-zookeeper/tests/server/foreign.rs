//! Claims of unknown clients, which count as exclusive in either direction.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, Mode};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{assert_excluded, eventually, steady};
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
fn holders_of_others_are_shown_as_far_as_their_data_go() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/shown").await;
        let admin = admin(server).await;
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        admin.mkdir("/shown/k", &container).await.unwrap();
        let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let ours = "_c_0f0e0d0c-0b0a-0908-0706-050403020100-lock-";
        // Curator writes an address, and earlier versions of this library wrote nothing.
        for (name, data, is_foreign) in [
            ("x-", "host=a pid=1 since=1", true),
            (ours, "192.0.2.7", true),
            (ours, "", false),
        ] {
            let start = format!("/shown/k/{name}");
            let created = admin.create(&start, data.as_bytes(), &ephemeral).await;
            let (_, sequence) = created.unwrap();
            let info = locks.inspect("k").await.unwrap();
            assert_eq!(info.holders.len(), 1, "{info:?}");
            let holder = &info.holders[0];
            assert_eq!(holder.foreign, is_foreign, "{data:?}: {holder:?}");
            assert_eq!(holder.token.is_some(), !is_foreign, "{data:?}: {holder:?}");
            assert_eq!((&holder.label, holder.pid), (&None, None), "{data:?}");
            admin
                .delete(&format!("{start}{sequence}"), None)
                .await
                .unwrap();
        }
        assert_eq!(locks.inspect("k").await.unwrap().holders, []);
        assert_eq!(locks.inspect("never").await.unwrap().holders, []);
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

#[test]
fn a_node_that_stays_is_no_claim_and_named_before_the_lock_is_busy_for_ever() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/stays").await;
        let admin = admin(server).await;
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        admin.mkdir("/stays/k", &persistent).await.unwrap();
        // The client checks nodes of unknown names anywhere in the queue, and nodes of known names
        // once they block it.
        for name in [
            "item-0000000005",
            "_c_0f0e0d0c-0b0a-0908-0706-050403020100-lock-0000000000",
            "-1000000000",
        ] {
            let path = format!("/stays/k/{name}");
            admin.create(&path, &[], &persistent).await.unwrap();
            for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(2).unwrap()] {
                let wanted = || request("k", mode);
                // After a refusal the client looks at the queue without a claim. A claim that ended
                // with the error may still block the next try.
                for _ in 0..2 {
                    eventually(PROMPT, "it is told", || async {
                        let tried = locks.acquire(wanted().without_waiting()).await;
                        let error = match tried {
                            Ok(guard) => {
                                assert_excluded!(guard.is_none(), "beside {name}");
                                return false;
                            }
                            Err(error) => error,
                        };
                        assert_eq!(error.kind(), ErrorKind::Backend, "{error}");
                        error.to_string().contains(&path)
                    })
                    .await;
                }
                let waited = timeout(PROMPT, locks.acquire(wanted())).await;
                let error = waited.expect("no wait").unwrap_err();
                assert!(error.to_string().contains(&path), "{error}");
            }
            admin.delete(&path, None).await.unwrap();
            let free = locks.acquire(request("k", Mode::Exclusive));
            let guard = timeout(PROMPT, free).await.expect("in time").unwrap();
            guard.expect("no end").release().await.unwrap();
        }
    });
}
