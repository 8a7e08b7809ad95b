//! `mysqls://`, and `mysql://` with certificates.

use std::path::Path;

use lock_testkit::servers::{Authority, SqlServer, SqlVendor};
use polylock::{Config, DistributedLockExt, Error, ErrorKind, connect};

/// A server whose certificate comes from `authority`, on which `u` has to show one as well.
fn demanding_server(vendor: SqlVendor, authority: &Authority) -> SqlServer {
    let server = SqlServer::start_with_tls::<&str>(vendor, authority, &[]);
    server.execute("create user u require x509; grant all on locks.* to u");
    server
}

fn verified(server: &SqlServer) -> String {
    server.url().replacen("mysql://", "mysqls://", 1)
}

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

#[tokio::test(flavor = "multi_thread")]
async fn url_and_fields_name_the_same_certificates() {
    for vendor in SqlVendor::available() {
        let authority = Authority::new();
        let server = demanding_server(vendor, &authority);
        let own = authority.issue("DNS:client", 1);
        let url = verified(&server).replace("root@", "u@");
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
        assert_refused(&refusal(unknown).await, ErrorKind::Denied, "Access denied");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_authority_is_refused() {
    let authority = Authority::new();
    let other = Authority::new();
    for vendor in SqlVendor::available() {
        let server = SqlServer::start_with_tls::<&str>(vendor, &authority, &[]);
        let with = |url: String, ca: &Path| format!("{url}?tls_ca={}", ca.display());
        let good = with(verified(&server), &authority.ca());
        assert!(connect(good).await.is_ok());
        // A certificate turns the verification on for this scheme as well.
        let good = with(server.url(), &authority.ca());
        assert!(connect(good).await.is_ok());
        for wrong in [
            with(verified(&server), &other.ca()),
            with(server.url(), &other.ca()),
            verified(&server),
        ] {
            let error = refusal(wrong).await;
            assert_refused(&error, ErrorKind::Denied, "invalid peer certificate");
        }
        assert!(connect(server.url()).await.is_ok(), "nobody verifies it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    let other = authority.issue("DNS:elsewhere.test", 1);
    let shows_another = [
        format!("--ssl-cert={}", other.cert.display()),
        format!("--ssl-key={}", other.key.display()),
    ];
    let server = SqlServer::start_with_tls(SqlVendor::MariaDb, &authority, &shows_another);
    let url = format!("{}?tls_ca={}", verified(&server), authority.ca().display());
    let error = refusal(url).await;
    assert_refused(
        &error,
        ErrorKind::Denied,
        "not valid for name \"127.0.0.1\"",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused() {
    let authority = Authority::new();
    let server = SqlServer::start_with(SqlVendor::MariaDb, &["--skip-ssl"]);
    for url in [
        verified(&server),
        format!("{}?tls_ca={}", server.url(), authority.ca().display()),
    ] {
        let error = refusal(url).await;
        assert_refused(&error, ErrorKind::Unavailable, "turn TLS on at the server");
    }
    assert!(connect(server.url()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_tls_is_reached_without_a_setting() {
    let authority = Authority::new();
    let wants = ["--require-secure-transport=ON"];
    let server = SqlServer::start_with_tls(SqlVendor::MariaDb, &authority, &wants);
    assert!(connect(server.url()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_win_over_the_url() {
    let authority = Authority::new();
    let server = SqlServer::start_with_tls::<&str>(SqlVendor::MariaDb, &authority, &[]);
    let config = Config {
        tls_ca: Some(authority.ca()),
        ..Config::new(format!("{}?tls_ca=/nowhere.pem", verified(&server)))
    };
    assert!(connect(config).await.is_ok());
}
