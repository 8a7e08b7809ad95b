//! URLs and configurations as users write them, valid and invalid.

use polylock::{Config, DistributedLockExt, ErrorKind, connect};

async fn refusal(config: impl polylock::IntoConfig) -> polylock::Error {
    match connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn wrong_urls_are_refused_by_name() {
    for (url, kind, part) in [
        ("", ErrorKind::Config, "no scheme"),
        ("localhost:6379", ErrorKind::Config, "no scheme"),
        (
            "carrier-pigeon://loft",
            ErrorKind::Config,
            "unknown scheme \"carrier-pigeon\" in the lock url: known are etcd, etcds, memory, mysql, mysqls, redis, rediss, zookeeper, zookeepers",
        ),
        ("memory://host", ErrorKind::Config, "no host or path"),
        (
            "memory://?tls_ca=ca.pem",
            ErrorKind::Config,
            "tls_ca is set, and memory:// never leaves the process",
        ),
        (
            "memory://?colour=blue",
            ErrorKind::Config,
            "unknown setting \"colour\"",
        ),
        (
            "memory://?hold=row",
            ErrorKind::Config,
            "hold is set, and memory:// has no such setting: leave it out, or use mysql:// or mysqls://",
        ),
        (
            "redis://localhost?connections=3",
            ErrorKind::Config,
            "connections is set, and redis:// has no such setting",
        ),
        (
            "etcd://localhost?table=locks",
            ErrorKind::Config,
            "table is set, and etcd:// has no such setting: leave it out, or use mysql:// or mysqls://",
        ),
        (
            "zookeepers://localhost?hold=row",
            ErrorKind::Config,
            "hold is set, and zookeepers:// has no such setting",
        ),
        (
            "memory://?hold=rows",
            ErrorKind::Config,
            "known are \"lease\", \"row\"",
        ),
        (
            "mysql://u@h/d?sslmode=disabled",
            ErrorKind::Config,
            "unknown setting \"sslmode\" in the url of mysql: known are namespace, ttl, request_wait, lock_delay, hand_off, keeper, tls_ca, tls_cert, tls_key, hold, table, create_table, purge_after, connections",
        ),
        (
            "memory://?ttl=5",
            ErrorKind::Config,
            "malformed duration \"5\"",
        ),
        ("memory://?ttl=1ms", ErrorKind::Unsupported, "from 50 ms"),
        (
            "memory://?namespace=",
            ErrorKind::InvalidKey,
            "namespace is empty",
        ),
    ] {
        let error = refusal(url).await;
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
}

#[tokio::test]
async fn urls_of_other_programs_are_told_apart() {
    for (url, part) in [
        (
            "mariadb://h/d",
            "begins with mariadb://: write mysql:// instead",
        ),
        ("valkey://h", "write redis:// instead"),
        ("zk://h", "write zookeeper:// instead"),
        ("'memory://'", "in quotation marks"),
        ("jdbc:mysql://h/d", "begins with jdbc"),
        (
            "memory://?wait=2s",
            "request_wait bounds requests that name no wait",
        ),
        ("memory://?ttl=2s&ttl=3s", "has \"ttl\" twice"),
    ] {
        let error = refusal(url).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_field_that_the_backend_does_not_have_is_refused() {
    let config = Config {
        table: Some("locks".into()),
        ..Config::new("memory://")
    };
    let error = refusal(config).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    let error = error.to_string();
    assert!(error.starts_with("table is set, and memory://"), "{error}");
    assert!(error.ends_with("use mysql:// or mysqls://"), "{error}");
}

#[cfg(not(all(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
)))]
#[tokio::test]
async fn a_backend_that_is_not_compiled_in_names_its_feature() {
    let backends = [
        ("etcd", cfg!(feature = "etcd")),
        ("mysql", cfg!(feature = "mysql")),
        ("redis", cfg!(feature = "redis")),
        ("zookeeper", cfg!(feature = "zookeeper")),
    ];
    let missing = backends.iter().filter(|(_, is_there)| !is_there);
    let schemes = missing.flat_map(|(feature, _)| [(feature, ""), (feature, "s")]);
    for (feature, end) in schemes {
        let scheme = format!("{feature}{end}");
        let error = refusal(format!("{scheme}://u:secret@localhost/0")).await;
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(text.starts_with(&format!("{scheme}://")), "{text}");
        assert!(text.contains(&format!("`--features {feature}`")), "{text}");
        assert!(
            text.contains(&format!("features = [\"{feature}\"]")),
            "{text}"
        );
        assert!(!format!("{error} {error:?}").contains("secret"));
        if scheme == "redis" {
            let page = include_str!("../docs/errors.md");
            assert!(page.contains(&format!("| Config: {text} |")), "{text}");
        }
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn certificates_without_tls_are_refused() {
    for (url, part) in [
        ("redis://localhost?tls_ca=ca.pem", "use rediss://"),
        (
            "rediss://localhost?tls_cert=c.pem",
            "tls_cert is set without tls_key",
        ),
        (
            "rediss://localhost?tls_key=k.pem",
            "tls_key is set without tls_cert",
        ),
    ] {
        let error = refusal(url).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
}

#[tokio::test]
async fn memory_stores_are_shared_by_namespace() {
    let here = connect("memory://?namespace=shared-by-namespace")
        .await
        .unwrap();
    let there = connect(Config {
        namespace: Some("shared-by-namespace".into()),
        ..Config::new("memory://")
    })
    .await
    .unwrap();
    let elsewhere = connect("memory://?namespace=another").await.unwrap();
    let guard = here.lock("k").await.unwrap();
    lock_testkit::assert_excluded!(there.try_lock("k").await.unwrap().is_none());
    assert!(elsewhere.try_lock("k").await.unwrap().is_some());
    guard.release().await.unwrap();
    assert!(there.try_lock("k").await.unwrap().is_some());
}

#[tokio::test]
async fn keys_are_checked_before_anything_is_sent() {
    let locks = connect("memory://?namespace=keys").await.unwrap();
    let empty = locks.lock("").await.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::InvalidKey);
    let long = locks.try_lock(&"k".repeat(256)).await.unwrap_err();
    assert!(
        long.to_string().contains("256 bytes and the limit is 255"),
        "{long}"
    );
}

#[test]
fn secrets_stay_out_of_debug() {
    for url in [
        "redis://user:s3cret@host:6379/0",
        "etcd://user:s3cret@host1:2379,host2:2379",
        "zookeeper://user:s3cret@host1,host2/app/locks",
    ] {
        let shown = format!("{:?}", Config::new(url));
        assert!(
            !shown.contains("s3cret") && shown.contains("host"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn a_password_with_a_question_mark_is_not_repeated_in_the_error() {
    for url in [
        "redis://user:top?secret@host:6379/0",
        "redis://u:a?ttl=secret@host",
        "redis://u:a?namespace=secret@host",
        "mysql://u:a?hold=secret@host/d",
        "etcd://u:a?wait=secret@host,host",
        "zookeeper://u:a?keeper=secret@host/locks",
    ] {
        let error = refusal(url).await;
        assert_eq!(error.kind(), ErrorKind::Config);
        let shown = format!("{error} {error:?} {:?}", Config::new(url));
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("%3F"), "{shown}");
    }
}
