//! `rediss://`.

use lock_testkit::servers::{Authority, RedisServer};
use polylock::{Config, DistributedLockExt, ErrorKind, connect};

#[tokio::test(flavor = "multi_thread")]
async fn url_and_fields_name_the_same_certificates() {
    let authority = Authority::new();
    let server = RedisServer::start_with_tls(&authority, &["--tls-auth-clients", "yes"]);
    let url = server.tls_url().expect("it was started with TLS");
    let own = authority.issue("DNS:client", 1);

    let by_fields = Config {
        tls_ca: Some(authority.ca()),
        tls_cert: Some(own.cert.clone()),
        tls_key: Some(own.key.clone()),
        ..Config::new(&url)
    };
    let by_url = format!(
        "{url}?tls_ca={}&tls_cert={}&tls_key={}",
        authority.ca().display(),
        own.cert.display(),
        own.key.display()
    );
    let [first, second] = [
        connect(by_fields.clone()).await.unwrap(),
        connect(by_url).await.unwrap(),
    ];
    let guard = first.lock("k").await.unwrap();
    assert!(second.try_lock("k").await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(second.lock("k").await.unwrap().is_held());

    let mut unknown = by_fields;
    unknown.tls_cert = None;
    unknown.tls_key = None;
    let error = connect(unknown).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(
        error.to_string().contains("set tls_cert and tls_key"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_win_over_the_url() {
    let authority = Authority::new();
    let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
    let url = server.tls_url().expect("it was started with TLS");
    let config = Config {
        tls_ca: Some(authority.ca()),
        ..Config::new(format!("{url}?tls_ca=/nowhere.pem"))
    };
    assert!(connect(config).await.is_ok());
}
