//! Users and their permissions, and clients whose token expires.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, Error, ErrorKind, LockRequest};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;
use tokio::time::timeout;

use crate::{Beside, PROMPT, connect, lock_for};

/// Starts a cluster with a user `locker` (password `p@ss/w?rd`), which may use keys below `shop/`.
fn with_user(arguments: &[&str]) -> EtcdCluster {
    let usual = ["--bcrypt-cost", "4"];
    let cluster = EtcdCluster::start_with(1, &[&usual, arguments].concat());
    cluster.control(&["role", "add", "locker"]);
    let grant = ["role", "grant-permission", "locker"];
    cluster.control(&[&grant[..], &["--prefix=true", "readwrite", "shop/"]].concat());
    cluster.control(&["user", "add", "locker:p@ss/w?rd"]);
    cluster.control(&["user", "grant-role", "locker", "locker"]);
    cluster.enable_authentication();
    cluster
}

fn url(cluster: &EtcdCluster, user: &str) -> String {
    format!("etcd://{user}{}", cluster.endpoints())
}

const LOCKER: &str = "locker:p%40ss%2Fw%3Frd@";

async fn refusal(url: String) -> Error {
    match EtcdLock::connect(EtcdConfig::new(url)).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

#[test]
fn who_has_no_or_a_wrong_password_is_denied() {
    steady(async || {
        let cluster = with_user(&[]);
        for user in ["", "locker:wr0ng@", "stranger:wr0ng@"] {
            let error = refusal(url(&cluster, user)).await;
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(
                error.to_string().contains("check user and password"),
                "{error}"
            );
            assert!(!format!("{error:?}").contains("wr0ng"), "{error:?}");
        }
    });
}

#[test]
fn what_the_role_does_not_allow_is_denied_and_not_busy() {
    steady(async || {
        let cluster = with_user(&[]);
        let locks = connect(url(&cluster, LOCKER)).await;
        assert!(locks.try_lock("shop/a").await.unwrap().is_some());
        let waiting = timeout(PROMPT, locks.lock("bank/a")).await;
        let refusals = [
            locks.try_lock("bank/a").await.unwrap_err(),
            waiting.expect("it does not wait for that").unwrap_err(),
        ];
        for error in refusals {
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.server().is_some(), "{error}");
        }
    });
}

#[test]
fn a_user_where_there_are_none_is_told_so() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let error = refusal(url(&cluster, LOCKER)).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(
            error.to_string().contains("leave user and password out"),
            "{error}"
        );
    });
}

#[test]
fn tokens_that_expire_are_replaced_unseen() {
    steady(async || {
        let cluster = with_user(&["--auth-token-ttl", "2"]);
        let (locks, other) = (
            connect(url(&cluster, LOCKER)).await,
            connect(url(&cluster, LOCKER)).await,
        );
        let guard = lock_for(&locks, "shop/k", Duration::from_secs(3)).await;
        let mut waiting = Beside::run(async move { other.lock("shop/k").await });
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert!(guard.is_held(), "it was lost when the token expired");
        assert!(locks.try_lock("shop/other").await.unwrap().is_some());
        guard.release().await.unwrap();
        let next = waiting.outcome().await;
        assert!(next.unwrap().is_held());
    });
}

/// With a long ttl the client sends few requests on the connection with the watches.
#[test]
fn a_stream_whose_login_has_expired_is_opened_anew_and_not_again_and_again() {
    steady(async || {
        let cluster = with_user(&["--auth-token-ttl", "2"]);
        let (locks, other) = (
            connect(url(&cluster, LOCKER)).await,
            connect(url(&cluster, LOCKER)).await,
        );
        let held = lock_for(&other, "shop/k", Duration::from_secs(3)).await;
        let wait = async |limit| {
            let request = LockRequest::exclusive("shop/k").unwrap();
            let request = request.with_ttl(Duration::from_secs(3600));
            locks.acquire(request.waiting_at_most(limit)).await.unwrap()
        };
        assert!(wait(Duration::from_secs(2)).await.is_none());
        let streams = || {
            let name = "grpc_server_started_total{grpc_method=\"Watch\"";
            cluster.first().figure(name)
        };
        tokio::time::sleep(Duration::from_secs(8)).await;
        let before = streams();
        assert!(wait(Duration::from_secs(2)).await.is_none());
        let opened = streams() - before;
        assert!(opened < 15.0, "{opened} streams for one waiter");
        held.release().await.unwrap();
    });
}

/// A change of users invalidates all tokens.
#[test]
fn users_that_are_changed_disturb_nobody() {
    steady(async || {
        let cluster = with_user(&[]);
        let locks = connect(url(&cluster, LOCKER)).await;
        let guard = lock_for(&locks, "shop/k", Duration::from_secs(3)).await;
        cluster.control(&["user", "add", "another:password"]);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        let next = timeout(PROMPT, locks.lock("shop/k")).await;
        assert!(next.expect("it is free").unwrap().is_held());
    });
}
