//! TLS as users configure it: the same by URL and by fields.

#![cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use lock_testkit::servers::Authority;
use polylock::{Config, DistributedLockExt, Error, ErrorKind, connect};

async fn refusal(config: impl polylock::IntoConfig) -> Error {
    match connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

fn assert_refused(error: &Error, kind: ErrorKind, part: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

/// Connects by fields, by URL and without a certificate.
///
/// The server behind `url` demands a certificate of `authority`. `refused` is a part of the error
/// of clients without one.
async fn url_and_fields_name_the_same_certificates(
    url: &str,
    authority: &Authority,
    refused: &str,
) {
    let own = authority.issue("DNS:client", 1);
    let by_fields = Config {
        tls_ca: Some(authority.ca()),
        tls_cert: Some(own.cert.clone()),
        tls_key: Some(own.key.clone()),
        ..Config::new(url)
    };
    let by_url = format!(
        "{url}?tls_ca={}&tls_cert={}&tls_key={}",
        authority.ca().display(),
        own.cert.display(),
        own.key.display()
    );
    let first = connect(by_fields.clone()).await.expect("by fields");
    let second = connect(by_url).await.expect("by url");
    let guard = first.lock("k").await.expect("connected");
    let busy = second.try_lock("k").await.expect("connected");
    lock_testkit::assert_excluded!(busy.is_none(), "not the same server");
    guard.release().await.expect("connected");
    assert!(second.lock("k").await.expect("connected").is_held());

    let mut unknown = by_fields;
    unknown.tls_cert = None;
    unknown.tls_key = None;
    assert_refused(&refusal(unknown).await, ErrorKind::Denied, refused);
}

/// Connects with two values of a setting. The server behind `url` has a certificate of `authority`.
async fn fields_win_over_the_url(url: &str, authority: &Authority) {
    let config = Config {
        tls_ca: Some(authority.ca()),
        ..Config::new(format!("{url}?tls_ca=/nowhere.pem"))
    };
    connect(config)
        .await
        .expect("the field names the right one");
}
