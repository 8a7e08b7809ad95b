//! ZooKeeper as users configure it, on real servers.

#![cfg(feature = "zookeeper")]

use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::steady;
use polylock::{DistributedLockExt, ErrorKind, connect};

fn url(rest: &str) -> String {
    format!("zookeeper://{}{rest}", ZooKeeperServer::shared().address())
}

async fn refusal(config: impl polylock::IntoConfig) -> polylock::Error {
    match connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn wrong_urls_say_what_to_write() {
    for (url, part) in [
        ("zookeeper://", "each host needs a name"),
        ("zookeeper://a,,b/locks", "each host needs a name"),
        ("zookeeper://a:port", "a port is a number"),
        ("zookeeper://::1", "an IPv6 address needs brackets"),
        ("zookeeper://u@a", "a user needs a password"),
        ("zookeeper://a/app//locks", "write it like /app/locks"),
        ("zookeeper://a/../locks", "write it like /app/locks"),
        ("zookeeper://a?tls_ca=ca.pem", "use zookeepers://"),
        (
            "zookeepers://a?tls_cert=c.pem",
            "tls_cert is set without tls_key",
        ),
        (
            "zookeeper://a?chroot=/locks",
            "unknown setting \"chroot\" in the url of zookeeper: known are namespace, ttl",
        ),
    ] {
        let error = refusal(url).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
}

#[test]
fn a_server_that_is_down_is_passed_over() {
    steady(async || {
        let up = ZooKeeperServer::shared().address();
        let locks = connect(format!("zookeeper://127.0.0.1:1,{up}/passed-over"))
            .await
            .unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
        let error = refusal("zookeeper://127.0.0.1:1").await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
}

#[test]
fn chroots_and_namespaces_keep_locks_apart() {
    steady(async || {
        let [plain, nested, spaced] = [
            connect(url("/apart")).await.unwrap(),
            connect(url("/apart/shop/")).await.unwrap(),
            connect(url("/apart?namespace=shop")).await.unwrap(),
        ];
        let guard = nested.lock("k").await.unwrap();
        assert!(plain.try_lock("k").await.unwrap().is_some());
        assert!(
            spaced.try_lock("k").await.unwrap().is_none(),
            "both are /apart/shop/k"
        );
        guard.release().await.unwrap();
        assert!(spaced.try_lock("k").await.unwrap().is_some());
    });
}

#[test]
fn a_ttl_that_the_server_cannot_give_is_unsupported() {
    steady(async || {
        let error = refusal(url("/short?ttl=900ms")).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains("ttl 900 ms is out of range for zookeeper: choose one from 1 s to"),
            "{text}"
        );
        assert!(connect(url("/short?ttl=1s")).await.is_ok());
    });
}

#[test]
fn users_own_the_nodes_that_they_make() {
    steady(async || {
        let of = |user: &str| {
            let at = url("/owned").replacen("://", &format!("://{user}"), 1);
            async move { connect(at).await.unwrap() }
        };
        // The client decodes `%` codes, so both URLs name the same user.
        let owner = of("l%40x:p%2Fw%25@").await;
        let again = of("l@x:p%2fw%25@").await;
        let guard = owner.lock("k").await.unwrap();
        lock_testkit::assert_excluded!(again.try_lock("k").await.unwrap().is_none());
        guard.release().await.unwrap();
        let guard = again.lock("k").await.unwrap();
        for other in [of("").await, of("l%40x:wrong@").await] {
            let error = other.try_lock("k").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn an_ipv6_address_stands_in_brackets() {
    steady(async || {
        if std::net::TcpListener::bind("[::1]:0").is_err() {
            eprintln!("NO IPV6 on this machine, so nothing is tested on it");
            return;
        }
        // The server listens on IPv4 and IPv6.
        let server = ZooKeeperServer::start_with(&["clientPortAddress=::"]);
        let port = server.member(0).port();
        let locks = connect(format!("zookeeper://[::1]:{port}")).await.unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
}
