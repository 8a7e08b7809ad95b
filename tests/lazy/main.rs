//! Clients that connect later, or again: `connect_lazy` and `connect_within`.

mod gate;
mod sharing;
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]
mod stores;

use polylock::{DistributedLockExt, ErrorKind, connect_lazy, connect_within};

use std::time::Duration;

use tokio::time::Instant;

#[test]
fn what_is_wrong_without_a_connection_is_told_at_once() {
    for (url, part) in [
        ("memory", "has no scheme"),
        ("shelf://a", "unknown scheme \"shelf\""),
        ("memory://host", "memory:// has no host or path"),
        ("memory://?tll=5s", "unknown setting \"tll\""),
        ("memory://?ttl=5", "malformed duration"),
        (
            "memory://?table=t",
            "table is set, and memory:// has no such",
        ),
        ("memory://?keeper=thread", "keeper: memory://"),
    ] {
        let error = connect_lazy(url).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Config | ErrorKind::Unsupported),
            "{url}: {error}"
        );
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
    let error = connect_lazy("memory://?ttl=1ms").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(
        error.to_string().contains("ttl 1 ms is out of range"),
        "{error}"
    );
}

#[test]
fn what_is_wrong_about_a_backend_is_told_without_its_server() {
    for (feature, url, part) in [
        (cfg!(feature = "redis"), "redis://a,b", "several servers"),
        (
            cfg!(feature = "redis"),
            "redis://a?tls_ca=c.pem",
            "use rediss://",
        ),
        (
            cfg!(feature = "mysql"),
            "mysql://u@localhost",
            "names no database",
        ),
        (
            cfg!(feature = "mysql"),
            "mysql://u@h/d?table=",
            "use letters, digits",
        ),
        (
            cfg!(feature = "etcd"),
            "etcd://a:port",
            "a port is a number",
        ),
        (cfg!(feature = "zookeeper"), "zookeeper://a/b//c", "chroot"),
    ] {
        let error = connect_lazy(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        let part = if feature { part } else { "not compiled in" };
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_wrong_configuration_is_not_tried_again() {
    let begun = Instant::now();
    for url in ["memory://host", "redis://a,b", "memory://?ttl=1ms"] {
        let error = connect_within(url, Duration::from_secs(60)).await;
        let error = error.map(drop).unwrap_err();
        assert!(!error.is_retryable(), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn any_limit_will_do_for_a_store_that_is_there() {
    for limit in [Duration::from_millis(500), Duration::MAX] {
        let locks = connect_within("memory://", limit).await.unwrap();
        assert!(locks.try_lock("any-limit").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn defaults_of_the_configuration_apply_to_requests() {
    let url = "memory://?namespace=lazy-defaults&ttl=5s&request_wait=0s";
    let locks = connect_lazy(url).unwrap();
    let guard = locks.lock("k").await.unwrap();
    assert!(guard.remaining() <= Duration::from_secs(5));
    let request = polylock::LockRequest::exclusive("k").unwrap();
    assert!(locks.acquire(request).await.unwrap().is_none());
}
