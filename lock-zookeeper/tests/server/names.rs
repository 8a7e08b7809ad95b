//! Names of nodes on the servers.

use lock_core::{DistributedLockExt, Mode, Namespace};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::steady;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::{admin, children, connect, request, take};

#[test]
fn names_are_different_locks_and_slashes_nest() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/names").await;
        let long = "n".repeat(255);
        let names = [
            "a",
            "a/b",
            "a%2Fb",
            "A",
            "a ",
            "锁/订单:42",
            "🔒",
            "..",
            "0123456789",
            "a/0123456789",
            &long,
        ];
        let mut guards = Vec::new();
        for name in names {
            guards.push(take(&locks, request(name, Mode::Exclusive)).await);
            lock_testkit::assert_excluded!(
                locks.try_lock(name).await.unwrap().is_none(),
                "{name:?}"
            );
        }
        let admin = admin(server).await;
        let mut top = children(&admin, "/names").await;
        top.sort();
        let escaped = [
            "%2E%2E",
            "%F0%9F%94%92",
            "0123456789",
            "A",
            "a",
            "a ",
            "a%252Fb",
        ];
        assert_eq!(top[..7], escaped);
        assert_eq!(top[7..], [long.as_str(), "锁"]);
        assert_eq!(children(&admin, "/names/锁").await, ["订单:42"]);
        let in_a = children(&admin, "/names/a").await;
        assert_eq!(in_a.len(), 3, "{in_a:?}");
        assert!(in_a.iter().any(|name| name == "b"));
        assert!(in_a.iter().any(|name| name == "012345678%39"), "{in_a:?}");
        for guard in guards {
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn a_claim_is_called_as_curator_calls_it_and_its_transaction_is_the_token() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/layout").await;
        let admin = admin(server).await;
        for (mode, middle) in [
            (Mode::Exclusive, "lock-"),
            (Mode::Shared, "shared-lock-"),
            (Mode::permit(3).unwrap(), "permit-3-lock-"),
        ] {
            let guard = take(&locks, request("k", mode)).await;
            let claims = children(&admin, "/layout/k").await;
            let [claim] = &claims[..] else {
                panic!("{claims:?}")
            };
            let (guid, rest) = claim.strip_prefix("_c_").unwrap().split_at(36);
            let groups: Vec<usize> = guid.split('-').map(str::len).collect();
            assert_eq!(groups, [8, 4, 4, 4, 12], "{guid}");
            let sequence = rest.strip_prefix(&format!("-{middle}")).unwrap();
            assert_eq!(sequence.len(), 10, "{claim}");
            let stat = admin
                .check_stat(&format!("/layout/k/{claim}"))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(guard.token().value(), (stat.czxid as u64) << 14);
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn namespaces_are_nodes_of_their_own() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let config = |namespace| {
            let namespace = Namespace::new(namespace).unwrap();
            ZooKeeperConfig::new(server.address())
                .with_chroot("/spaces")
                .with_namespace(namespace)
        };
        let one = ZooKeeperLock::connect(config("one")).await.unwrap();
        let slash = ZooKeeperLock::connect(config("one/k")).await.unwrap();
        let bare = connect(server, "/spaces").await;
        let first = one.lock("k").await.unwrap();
        let second = slash.lock("k").await.unwrap();
        assert!(
            bare.try_lock("one/k").await.unwrap().is_none(),
            "it is the same node"
        );
        let admin = admin(server).await;
        let mut spaces = children(&admin, "/spaces").await;
        spaces.sort();
        assert_eq!(spaces, ["one", "one%2Fk"]);
        first.release().await.unwrap();
        second.release().await.unwrap();
    });
}
