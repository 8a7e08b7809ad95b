//! Several stores behind one configuration, selected by key.

use std::time::Duration;

use polylock::{
    Config, DistributedLock, DistributedLockExt, ErrorKind, IntoConfig, LockRequest, connect,
    connect_lazy,
};

fn config(toml: &str) -> Config {
    toml::from_str(toml).expect("it is well-formed")
}

async fn refusal(config: impl IntoConfig) -> polylock::Error {
    match connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

/// The wrappers of the facade pass an inspection on, and serialize its answer.
#[tokio::test]
async fn an_inspection_leads_to_the_store_of_the_key() {
    let config = config(
        r#"
        ttl = "10s"
        [locks.one]
        url = "memory://?namespace=inspect-one"
        [locks.two]
        url = "memory://?namespace=inspect-two"
        [routes]
        "a" = "one"
        "b" = "two"
        "#,
    );
    let store = connect("memory://?namespace=inspect-two").await.unwrap();
    let request = LockRequest::shared("b").unwrap().labelled("x").unwrap();
    let guard = store.acquire(request).await.unwrap().expect("free");
    for locks in [
        connect(config.clone()).await.unwrap(),
        connect_lazy(config).unwrap(),
    ] {
        assert!(locks.capabilities().inspect);
        assert_eq!(locks.inspect("a").await.unwrap().holders, []);
        let info = locks.inspect("b").await.unwrap();
        let json = serde_json::to_value(&info).unwrap();
        let holder = &json["holders"][0];
        assert_eq!(holder["label"], "x", "{json}");
        assert_eq!(holder["mode"], "shared", "{json}");
        assert_eq!(holder["token"], guard.token().to_string(), "{json}");
        assert!(
            holder["since_ms"].is_u64() && holder["ttl_left_ms"].is_u64(),
            "{json}"
        );
        assert_eq!(json["waiters"], 0, "{json}");
        let error = locks.inspect("c").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "no route fits: {error}");
    }
}

/// Returns true if `locks` holds `key` in the store with `namespace`.
async fn is_in(locks: &dyn DistributedLock, key: &str, namespace: &str) -> bool {
    let url = format!("memory://?namespace={namespace}");
    let store = connect(url).await.expect("it is always there");
    let ours = locks.try_lock(key).await.expect("a route fits");
    let theirs = store.try_lock(key).await.expect("it is always there");
    ours.is_some() && theirs.is_none()
}

#[tokio::test]
async fn the_longest_route_that_fits_leads_to_the_store() {
    let locks = connect(config(
        r#"
        [locks.one]
        url = "memory://?namespace=routes-one"
        [locks.two]
        url = "memory://?namespace=routes-two"
        [locks.three]
        url = "memory://?namespace=routes-three"

        [routes]
        "coupon/*" = "one"
        "coupon/vip/*" = "two"
        "coupon/vip/1" = "three"
        "*" = "two"
        "#,
    ))
    .await
    .unwrap();
    for (key, namespace) in [
        ("coupon/1", "routes-one"),
        ("coupon/", "routes-one"),
        ("coupon/vip/2", "routes-two"),
        ("coupon/vip/1", "routes-three"),
        ("coupon/vip/10", "routes-two"),
        ("coupon", "routes-two"),
        ("refund/1", "routes-two"),
    ] {
        assert!(
            is_in(&*locks, key, namespace).await,
            "{key} is not in {namespace}"
        );
    }
}

#[tokio::test]
async fn a_key_that_no_route_fits_is_refused_by_name() {
    let locks = connect(config(
        "[locks.one]\nurl = 'memory://'\n[routes]\n'coupon/*' = 'one'",
    ))
    .await
    .unwrap();
    let error = locks.try_lock("refund/1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    assert!(
        text.contains("refund/1") && text.contains("\"*\""),
        "{text}"
    );
}

#[tokio::test]
async fn what_is_set_outside_applies_where_nothing_else_is_said() {
    let locks = connect(config(
        r#"
        namespace = "routes-outside"
        ttl = "5s"
        [locks.one]
        url = "memory://"
        [locks.two]
        url = "memory://?ttl=9s"
        [locks.three]
        url = "memory://"
        ttl = "9s"
        [routes]
        "1" = "one"
        "2" = "two"
        "3" = "three"
        "#,
    ))
    .await
    .unwrap();
    for (key, least, most) in [("1", 4, 5), ("2", 8, 9), ("3", 8, 9)] {
        assert!(is_in(&*locks, key, "routes-outside").await);
        let guard = locks.try_lock(key).await.unwrap().expect("free");
        let left = guard.remaining();
        let range = Duration::from_secs(least)..=Duration::from_secs(most);
        assert!(range.contains(&left), "{key}: {left:?}");
    }
}

#[tokio::test]
async fn locks_that_no_route_leads_to_are_not_connected() {
    let locks = connect(config(
        "[locks.one]\nurl = 'memory://'\n[locks.other]\nurl = 'carrier-pigeon://home'\n\
         [routes]\n'*' = 'one'",
    ))
    .await;
    assert!(locks.is_ok(), "{locks:?}");
}

#[tokio::test]
async fn mistakes_are_told_in_words() {
    const ONE: &str = "[locks.one]\nurl = 'memory://'\n";
    for (toml, part) in [
        (ONE.to_owned(), "write \"*\" = \"NAME\" into [routes]"),
        (
            format!("{ONE}[routes]\n'*' = 'two'"),
            "\"*\" leads to \"two\", which is not among the locks: known are one",
        ),
        (
            format!("{ONE}[routes]\n'a*b' = 'one'"),
            "\"a*b\" has a * that is not at its end",
        ),
        (
            format!("url = 'memory://'\n{ONE}[routes]\n'*' = 'one'"),
            "a url beside [locks] and [routes]",
        ),
        (
            "[routes]\n'*' = 'one'".to_owned(),
            "which is not among the locks",
        ),
        (
            format!("{ONE}[locks.one.routes]\n'*' = 'one'\n[routes]\n'*' = 'one'"),
            "locks.one: it is one store",
        ),
        (
            "[locks.one]\nttl = '5s'\n[routes]\n'*' = 'one'".to_owned(),
            "locks.one: the lock url has no scheme",
        ),
        (
            "table = 'x'\n[locks.one]\nurl = 'memory://'\n[routes]\n'*' = 'one'".to_owned(),
            "locks.one: table",
        ),
        ("ttl = '5s'".to_owned(), "the lock url has no scheme"),
    ] {
        let error = refusal(config(&toml)).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{toml}: {error}");
        assert!(error.to_string().contains(part), "{toml}: {error}");
    }
}

#[tokio::test]
async fn a_shutdown_ends_all_of_them() {
    let locks = connect(config(
        "[locks.one]\nurl = 'memory://?namespace=routes-end-one'\n\
         [locks.two]\nurl = 'memory://?namespace=routes-end-two'\n\
         [routes]\n'1' = 'one'\n'2' = 'two'",
    ))
    .await
    .unwrap();
    let guards = [
        locks.lock("1").await.unwrap(),
        locks.lock("2").await.unwrap(),
    ];
    locks.shutdown(Duration::from_secs(5)).await.unwrap();
    for (guard, key) in guards.iter().zip(["1", "2"]) {
        lock_testkit::assert_excluded!(!guard.is_held());
        let error = locks.try_lock(key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
}

#[tokio::test]
async fn what_all_can_do_is_what_they_can_do_together() {
    let locks = connect(config(
        "[locks.queue]\nurl = 'memory://?hand_off=0s'\n[locks.other]\nurl = 'memory://'\n\
         [routes]\n'queue/*' = 'queue'\n'*' = 'other'",
    ))
    .await
    .unwrap();
    let together = locks.capabilities();
    assert!(together.shared && together.permits && !together.fair);
    assert_eq!(together.backend, "routes");
}

#[test]
fn secrets_of_several_stores_stay_out_of_debug() {
    let shown = format!(
        "{:?}",
        config("[locks.one]\nurl = 'redis://user:s3cret@host'\n[routes]\n'*' = 'one'")
    );
    assert!(
        !shown.contains("s3cret") && shown.contains("host"),
        "{shown}"
    );
}
