//! etcd as users configure it, on real clusters.

#![cfg(feature = "etcd")]

use std::time::Duration;

use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;
use polylock::{DistributedLockExt, ErrorKind, connect};

async fn refusal(config: impl polylock::IntoConfig) -> polylock::Error {
    match connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn wrong_urls_say_what_to_write() {
    for (url, part) in [
        ("etcd://", "each host needs a name"),
        ("etcd://a,,b", "each host needs a name"),
        ("etcd://a:port", "a port is a number"),
        ("etcd://::1", "an IPv6 address needs brackets"),
        ("etcd://u@a", "a user needs a password"),
        ("etcd://a/locks", "nothing may follow the hosts"),
        ("etcd://a?tls_ca=ca.pem", "use etcds://"),
        (
            "etcds://a?tls_cert=c.pem",
            "tls_cert is set without tls_key",
        ),
        (
            "etcd://a?endpoints=b",
            "unknown setting \"endpoints\" in the url of etcd: known are namespace, ttl",
        ),
    ] {
        let error = refusal(url).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
}

#[test]
fn a_member_that_is_down_is_passed_over() {
    steady(async || {
        let cluster = EtcdCluster::shared();
        let url = format!(
            "etcd://127.0.0.1:1,{}/?namespace=passed-over",
            cluster.endpoints()
        );
        let locks = connect(url).await.unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
        let error = refusal("etcd://127.0.0.1:1").await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
}

#[test]
fn namespaces_keep_locks_apart() {
    steady(async || {
        let url = EtcdCluster::shared().url();
        let [here, there] = [
            connect(format!("{url}?namespace=here")).await.unwrap(),
            connect(format!("{url}?namespace=there")).await.unwrap(),
        ];
        let guard = here.lock("k").await.unwrap();
        assert!(there.try_lock("k").await.unwrap().is_some());
        let names = ["get", "--prefix", "here/", "--keys-only"];
        let names = EtcdCluster::shared().control(&names);
        assert!(names.starts_with("here/k/"), "{names}");
        guard.release().await.unwrap();
    });
}

#[test]
fn a_ttl_that_the_cluster_cannot_give_is_told_at_once() {
    steady(async || {
        let url = EtcdCluster::shared().url();
        let error = refusal(format!("{url}?ttl=900ms")).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains("ttl 900 ms is out of range for etcd: choose one from 1 s to"),
            "{text}"
        );
        let locks = connect(format!("{url}?ttl=1s&namespace=short"))
            .await
            .unwrap();
        let guard = locks.lock("k").await.unwrap();
        assert!(guard.remaining() <= Duration::from_secs(1));
    });
}

#[test]
fn percent_signs_in_users_and_passwords_are_undone() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        cluster.control(&["role", "add", "locker"]);
        cluster.control(&[
            "role",
            "grant-permission",
            "locker",
            "--prefix=true",
            "readwrite",
            "shop/",
        ]);
        cluster.control(&["user", "add", "a@b/c:p?w#d%41+"]);
        cluster.control(&["user", "grant-role", "a@b/c", "locker"]);
        cluster.enable_authentication();
        let url = |user: &str| format!("etcd://{user}@{}?namespace=shop", cluster.endpoints());
        let locks = connect(url("a%40b%2Fc:p%3Fw%23d%2541+")).await.unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
        let error = refusal(url("a%40b%2Fc:wrong")).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    });
}

#[test]
fn an_ipv6_address_stands_in_brackets() {
    steady(async || {
        let Ok(free) = std::net::TcpListener::bind("[::1]:0") else {
            eprintln!("NO IPV6 on this machine, so nothing is tested on it");
            return;
        };
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let also = format!("http://[::1]:{port}");
        let cluster = EtcdCluster::start_with(1, &["--listen-client-urls", &also]);
        let locks = connect(format!("etcd://[::1]:{port}")).await.unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
        drop(cluster);
    });
}
