//! Backends of other crates, named by URL in every place that can name a store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use polylock::backend::{Backend, BackendOptions};
use polylock::{
    Config, DistributedLock, DistributedLockExt, Error, ErrorKind, IntoConfig, KeeperMode,
    MemoryLock, Registry, Result,
};

/// The options of each connect, in the order of the calls.
type Seen = Arc<Mutex<Vec<BackendOptions>>>;

/// Creates a registry with `shelf://` and `shelves://`, memory stores that the location names.
fn registry() -> (Registry, Seen) {
    let seen = Seen::default();
    let connected = Arc::clone(&seen);
    let connect = move |options: BackendOptions| {
        let seen = Arc::clone(&connected);
        async move {
            options.duration("poll")?;
            let store = MemoryLock::shared(&format!("shelf/{}", options.location()));
            seen.lock().expect("no test panics with it").push(options);
            Ok(Arc::new(store) as Arc<dyn DistributedLock>)
        }
    };
    let shelf = Backend::new("shelf", connect)
        .with_scheme("shelves")
        .with_settings(["poll", "token", "height"]);
    let mut registry = Registry::new();
    registry.register(shelf).expect("the schemes are free");
    (registry, seen)
}

fn only(seen: &Seen) -> BackendOptions {
    let seen = seen.lock().expect("no test panics with it");
    assert_eq!(seen.len(), 1);
    seen[0].clone()
}

async fn refusal(registry: &Registry, config: impl IntoConfig) -> Error {
    match registry.connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

fn toml(text: &str) -> Config {
    toml::from_str(text).expect("it is well-formed")
}

#[tokio::test]
async fn a_url_leads_to_a_registered_backend_with_all_that_is_its_own() {
    let (registry, seen) = registry();
    let locks = registry
        .connect("Shelf://u:p@left/top?ttl=5s&poll=20ms&namespace=shop&keeper=caller&hand_off=0s")
        .await
        .unwrap();
    let guard = locks.try_lock("k").await.unwrap().expect("free");
    assert!(guard.remaining() <= Duration::from_secs(5), "ttl");
    let options = only(&seen);
    assert_eq!(options.url(), "shelf://u:p@left/top");
    assert_eq!(options.scheme(), "shelf");
    assert_eq!(options.location(), "u:p@left/top");
    assert_eq!(options.namespace().as_str(), Some("shop"));
    assert_eq!(options.keeper(), Some(KeeperMode::Caller));
    assert_eq!(options.setting("poll"), Some("20ms"));
    assert_eq!(
        options.duration("poll").unwrap(),
        Some(Duration::from_millis(20))
    );
    assert_eq!(options.setting("ttl"), None, "the registry applies it");
    assert_eq!(options.duration("height").unwrap(), None);
    drop(guard);
    assert!(registry.connect("shelves://left").await.is_ok());
}

#[tokio::test]
async fn a_table_may_have_settings_of_its_backend_which_win_over_the_url() {
    let (registry, seen) = registry();
    let config = toml("url = 'shelf://left?poll=2s&token=a'\n[settings]\nheight = 3\npoll = '1s'");
    registry.connect(&config).await.unwrap();
    let options = only(&seen);
    assert_eq!(options.setting("height"), Some("3"));
    assert_eq!(options.setting("poll"), Some("1s"));
    assert_eq!(options.setting("token"), Some("a"));
    let json: Config = serde_json::from_str(
        r#"{"settings": {"height": 3, "poll": "1s", "token": null}, "url": "shelf://left?poll=2s&token=a"}"#,
    )
    .unwrap();
    assert_eq!(json, config);
}

#[tokio::test]
async fn locks_and_routes_lead_to_registered_backends() {
    let (registry, seen) = registry();
    let locks = registry
        .connect(toml(
            r#"
            namespace = "shop"
            [locks.shelf]
            url = "shelf://routed"
            settings = { poll = "5ms" }
            [locks.other]
            url = "memory://"
            [routes]
            "coupon/*" = "shelf"
            "*" = "other"
            "#,
        ))
        .await
        .unwrap();
    let options = only(&seen);
    assert_eq!(options.setting("poll"), Some("5ms"));
    assert_eq!(options.namespace().as_str(), Some("shop"));
    let store = MemoryLock::shared("shelf/routed");
    let coupon = locks.lock("coupon/1").await.unwrap();
    lock_testkit::assert_excluded!(store.try_lock("coupon/1").await.unwrap().is_none());
    let _refund = locks.lock("refund/1").await.unwrap();
    assert!(store.try_lock("refund/1").await.unwrap().is_some());
    coupon.release().await.unwrap();

    let outside = toml(
        "[settings]\nheight = 3\npoll = '1s'\n[locks.shelf]\nurl = 'shelf://outside?poll=2s'\n[routes]\n'*' = 'shelf'",
    );
    registry.connect(outside).await.unwrap();
    let options = seen.lock().expect("no test panics with it").pop().unwrap();
    assert_eq!(options.setting("height"), Some("3"));
    assert_eq!(options.setting("poll"), Some("2s"));

    let wrong =
        "[locks.shelf]\nurl = 'shelf://a'\nsettings.colour = 'blue'\n[routes]\n'*' = 'shelf'";
    let error = refusal(&registry, toml(wrong)).await.to_string();
    assert!(
        error.starts_with("locks.shelf: unknown setting \"colour\""),
        "{error}"
    );
}

#[test]
fn schemes_that_are_taken_or_malformed_are_refused() {
    let (mut registry, _) = registry();
    let mut refused = |backend: Backend| {
        let error = registry.register(backend).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    async fn connect(_: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(MemoryLock::new()))
    }
    for taken in ["memory", "redis", "etcds", "zookeeper", "shelf", "shelves"] {
        let error = refused(Backend::new(taken, connect));
        assert!(
            error.contains(&format!("scheme {taken:?} is taken")),
            "{error}"
        );
    }
    let twice = refused(Backend::new("box", connect).with_scheme("box"));
    assert!(twice.contains("is taken"), "{twice}");
    for malformed in ["", "Box", "b ox", "box://", "box:", "1box", "ß"] {
        let error = refused(Backend::new(malformed, connect));
        assert!(error.contains("is malformed"), "{malformed}: {error}");
    }
    for (setting, problem) in [
        ("ttl", "is taken"),
        ("table", "is taken"),
        ("url", "is taken"),
        ("settings", "is taken"),
        ("routes", "is taken"),
        ("", "is malformed"),
        ("a-b", "is malformed"),
        ("Height", "is malformed"),
    ] {
        let error = refused(Backend::new("box", connect).with_settings([setting]));
        assert!(error.contains(problem), "{setting}: {error}");
    }
    let good = Backend::new("box+a.b-1", connect).with_settings(["a_1"]);
    assert!(registry.register(good).is_ok());
}

#[tokio::test]
async fn unknown_settings_and_schemes_are_named_together_with_the_known_ones() {
    let (registry, seen) = registry();
    let known =
        "known are namespace, ttl, request_wait, lock_delay, hand_off, keeper, poll, token, height";
    for (config, part) in [
        (
            Config::new("shelves://a?colour=blue"),
            format!("unknown setting \"colour\" in the url of shelves: {known}"),
        ),
        (
            toml("url = 'shelf://a'\nsettings.colour = 'blue'"),
            format!("unknown setting \"colour\" beside the url of shelf: {known}"),
        ),
        (
            Config::new("shelf://a?poll=5"),
            "poll: malformed duration \"5\"".to_owned(),
        ),
        (
            Config::new("shelf://a?hold=row"),
            "hold is set, and shelf:// has no such setting: leave it out, or use mysql:// or mysqls://"
                .to_owned(),
        ),
        (
            Config::new("shelf://a?tls_ca=/ca.pem"),
            "tls_ca is set, and shelf:// has no such setting: leave it out".to_owned(),
        ),
        (
            Config::new("box://a"),
            "unknown scheme \"box\" in the lock url: known are etcd, etcds, memory, mysql, mysqls, redis, rediss, zookeeper, zookeepers, shelf, shelves".to_owned(),
        ),
        (Config::new("valkey://a"), "write redis:// instead".to_owned()),
    ] {
        let error = refusal(&registry, &config).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{config:?}: {error}");
        assert!(error.to_string().contains(&part), "{config:?}: {error}");
    }
    assert!(
        seen.lock().expect("no test panics with it").is_empty(),
        "connected"
    );
    let settings = [("height".to_owned(), "3".to_owned())];
    let built_in = Config {
        settings: settings.into(),
        ..Config::new("memory://")
    };
    let error = refusal(&registry, built_in).await.to_string();
    assert!(
        error.contains("unknown setting \"height\" beside the url of memory"),
        "{error}"
    );
    let nested =
        toml::from_str::<Config>("url = 'shelf://a'\n[settings.height]\na = 1").unwrap_err();
    assert!(nested.to_string().contains("a single value"), "{nested}");
}

#[tokio::test]
async fn a_backend_that_takes_certificates_gets_them() {
    let connect = async |options: BackendOptions| {
        assert_eq!(options.tls(), polylock::Tls::new().with_ca("/ca.pem"));
        Ok(Arc::new(MemoryLock::new()) as Arc<dyn DistributedLock>)
    };
    let mut registry = Registry::new();
    let secure = Backend::new("secure", connect).with_tls();
    registry.register(secure).unwrap();
    let locks = registry.connect("secure://a?tls_ca=/ca.pem").await;
    assert!(locks.is_ok(), "{locks:?}");
}

#[tokio::test]
async fn what_a_registry_has_stays_its_own() {
    let (registry, _) = registry();
    let copy = registry.clone();
    assert!(copy.connect("shelf://copy").await.is_ok());
    assert!(copy.connect("memory://").await.is_ok());
    let error = refusal(&Registry::default(), "shelf://a").await;
    assert!(
        error.to_string().contains("unknown scheme \"shelf\""),
        "{error}"
    );
    assert!(polylock::connect("shelf://a").await.is_err());
    let shown = format!("{registry:?}");
    assert!(
        shown.contains("shelves") && shown.contains("height"),
        "{shown}"
    );
}

#[tokio::test]
async fn secrets_of_a_registered_backend_are_not_shown() {
    let (registry, seen) = registry();
    let token = "settings.token = 's3cret'\nurl = ";
    for config in [
        Config::new("shelf://user:s3cret@shop/a"),
        Config::new("shelf://s3cret@shop/a"),
        Config::new("SHELF://:s3cret@shop/a"),
        Config::new("shelf://shop?token=s3cret"),
        toml(&format!("{token}'shelf://shop'")),
        toml(&format!(
            "[locks.a]\n{token}'shelf://shop'\n[routes]\n'*' = 'a'"
        )),
    ] {
        let locks = registry.connect(&config).await.unwrap();
        let options = seen.lock().expect("no test panics with it").pop().unwrap();
        let shown = format!("{config:?} {config:#?} {options:?} {options:#?} {locks:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("shop"), "{shown}");
    }
    for url in [
        "shelf://user:s3cret@shop?colour=s3cret",
        "shelf://user:s3cret@shop?token=s3cret&ttl=x",
        "shelf://s3cret@shop?token=s3cret&hold=row",
        "shelf://user:a?s3cret@shop",
        "box://user:s3cret@shop?token=s3cret",
        "box://s3cret@shop",
    ] {
        let error = refusal(&registry, url).await;
        let shown = format!("{error} {error:?} {:?}", Config::new(url));
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
