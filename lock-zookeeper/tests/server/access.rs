//! The permissions of users, and the errors for missing permissions.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, Mode};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::{PROMPT, admin, children, connect, request, take};

fn config(server: &ZooKeeperServer, chroot: &str) -> ZooKeeperConfig {
    ZooKeeperConfig::new(server.address()).with_chroot(chroot)
}

#[test]
fn nodes_are_for_their_user_only() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let user = config(server, "/users").with_auth("alice:secret");
        let alice = ZooKeeperLock::connect(user).await.unwrap();
        let guard = alice.lock("k").await.unwrap();
        let everybody = connect(server, "/users").await;
        let wrong = config(server, "/users").with_auth("alice:wrong");
        let wrong = ZooKeeperLock::connect(wrong).await.unwrap();
        for others in [everybody, wrong] {
            let error = others.try_lock("k").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            let text = format!("{error} {error:?} {others:?}");
            assert!(text.contains("check auth"), "{text}");
            assert!(
                !text.contains("wrong") && !text.contains("secret"),
                "{text}"
            );
        }
        lock_testkit::assert_excluded!(alice.try_lock("k").await.unwrap().is_none());
        guard.release().await.unwrap();
    });
}

#[test]
fn a_hold_whose_node_nobody_may_remove_goes_with_its_session() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let admin = Client::connector()
            .with_auth("digest", b"root:root")
            .connect(&server.address())
            .await
            .unwrap();
        let locks = connect(server, "/revoked").await;
        let wanted = request("k", Mode::Exclusive);
        let ttl = Duration::from_secs(2);
        let guard = take(&locks, wanted.with_ttl(ttl)).await;
        let acl = [Acl::new(Permission::ALL, AuthId::authed())];
        admin.set_acl("/revoked/k", &acl, None).await.unwrap();
        drop(guard);
        eventually(PROMPT, "the session is closed", || async {
            children(&admin, "/revoked/k").await.is_empty()
        })
        .await;
    });
}

#[test]
fn a_right_to_make_nodes_is_enough() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let admin = admin(server).await;
        let acl = [Acl::new(Permission::CREATE, AuthId::anyone())];
        let options = CreateMode::Persistent.with_acls(Acls::new(&acl));
        admin.create("/given", &[], &options).await.unwrap();
        let user = config(server, "/given").with_auth("alice:secret");
        let locks = ZooKeeperLock::connect(user).await.unwrap();
        for name in ["k", "a/b", "k"] {
            let guard = locks.lock(name).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
    });
}

#[test]
fn permits_of_users_that_cannot_read_each_other_have_no_slots() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let admin = admin(server).await;
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for path in ["/shared", "/shared/k"] {
            admin.create(path, &[], &open).await.unwrap();
        }
        let permit = || request("k", Mode::permit(3).unwrap());
        let of_user = async |user: &str| {
            let config = config(server, "/shared").with_auth(user);
            take(&ZooKeeperLock::connect(config).await.unwrap(), permit()).await
        };
        let alice = of_user("alice:secret").await;
        assert_eq!(alice.slot(), Some(0));
        let bob = of_user("bob:secret").await;
        assert_eq!(bob.slot(), None);
        assert!(alice.is_held() && bob.is_held());
    });
}

#[test]
fn a_chroot_is_made_and_kept() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/chroot/of/ours").await;
        locks.lock("k").await.unwrap().release().await.unwrap();
        let admin = admin(server).await;
        eventually(PROMPT, "our node has gone", || async {
            children(&admin, "/chroot/of/ours").await.is_empty()
        })
        .await;
        assert_eq!(children(&admin, "/chroot/of").await, ["ours"]);
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let made = admin.create("/chroot/of/ours/mine", &[], &persistent).await;
        assert!(made.is_ok(), "{made:?}");
    });
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    steady(async || {
        let connect = async |config: ZooKeeperConfig| {
            let refused = ZooKeeperLock::connect(config).await;
            refused
                .map(|locks| panic!("connected to {locks:?}"))
                .unwrap_err()
        };
        let plain = || ZooKeeperConfig::new("127.0.0.1:1");
        for (config, part) in [
            (ZooKeeperConfig::new("127.0.0.1:1/app"), "as chroot"),
            (ZooKeeperConfig::new(""), "write servers like"),
            (ZooKeeperConfig::new("127.0.0.1:port"), "write servers like"),
            (ZooKeeperConfig::new("::1"), "write servers like"),
            (ZooKeeperConfig::new("a name"), "write servers like"),
            (plain().with_chroot("app"), "write it like /app/locks"),
            (plain().with_chroot("/app/"), "write it like /app/locks"),
            (plain().with_auth("alice"), "user:password"),
        ] {
            let error = connect(config).await;
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = connect(plain()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("is reachable"), "{error}");
        let debug = format!("{:?}", plain().with_auth("alice:secret"));
        assert!(
            debug.contains("alice") && !debug.contains("secret"),
            "{debug}"
        );
    });
}

#[test]
fn a_level_that_may_not_be_made_is_denied_by_name_and_at_once() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let admin = admin(&server).await;
        let acl = [Acl::new(Permission::READ, AuthId::anyone())];
        let options = CreateMode::Persistent.with_acls(Acls::new(&acl));
        admin.create("/closed", &[], &options).await.unwrap();
        for (chroot, key, missing) in [
            ("/closed/app/locks", "k", "/closed/app cannot"),
            ("/closed", "k", "/closed/k cannot"),
            ("", "closed/a/b/c", "/closed/a cannot"),
        ] {
            let locks = connect(&server, chroot).await;
            let received = || server.member(0).figure("zk_packets_received").unwrap();
            let before = received();
            for wanted in [
                request(key, Mode::Exclusive).without_waiting(),
                request(key, Mode::Shared),
            ] {
                let error = locks.acquire(wanted).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
                assert!(error.to_string().contains(missing), "{error}");
            }
            let asked = received() - before;
            assert!(asked < 50, "{asked} requests for two refusals");
        }
    });
}

#[test]
fn servers_that_want_to_know_the_user_first_are_told() {
    steady(async || {
        let server = ZooKeeperServer::start_with(&[
            "enforce.auth.enabled=true",
            "enforce.auth.schemes=digest",
        ]);
        let user = || config(&server, "/enforced").with_auth("alice:secret");
        let locks = ZooKeeperLock::connect(user()).await.unwrap();
        let guard = locks.lock("k").await.unwrap();
        let others = ZooKeeperLock::connect(user()).await.unwrap();
        lock_testkit::assert_excluded!(others.try_lock("k").await.unwrap().is_none());
        server.member(0).restart();
        for client in [&others, &locks] {
            eventually(PROMPT, "the session goes on", || async {
                let tried = client.try_lock("k").await;
                tried.is_ok_and(|guard| guard.is_none())
            })
            .await;
        }
        guard.release().await.unwrap();
        let nobody = ZooKeeperLock::connect(config(&server, "/enforced")).await;
        let error = nobody.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("auth"), "{error}");
    });
}
