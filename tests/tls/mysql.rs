//! TLS on MySQL and MariaDB: `mysqls://`, and `mysql://` with certificates.

use std::path::Path;

use lock_testkit::servers::{Authority, SqlServer, SqlVendor};
use lock_testkit::steady;
use polylock::{ErrorKind, connect};

use crate::{assert_refused, refusal};

/// Starts a server with a certificate of `authority`; its user `u` has to show one, too.
fn demanding_server(vendor: SqlVendor, authority: &Authority) -> SqlServer {
    let server = SqlServer::start_with_tls::<&str>(vendor, authority, &[]);
    server.execute("create user u require x509; grant all on locks.* to u");
    server
}

fn verified(server: &SqlServer) -> String {
    server.url().replacen("mysql://", "mysqls://", 1)
}

#[test]
fn url_and_fields_name_the_same_certificates() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let authority = Authority::new();
            let server = demanding_server(vendor, &authority);
            let url = verified(&server).replace("root@", "u@");
            crate::url_and_fields_name_the_same_certificates(&url, &authority, "Access denied")
                .await;
        }
    });
}

#[test]
fn a_server_of_another_authority_is_refused() {
    steady(async || {
        let authority = Authority::new();
        let other = Authority::new();
        for vendor in SqlVendor::available() {
            let server = SqlServer::start_with_tls::<&str>(vendor, &authority, &[]);
            let with = |url: String, ca: &Path| format!("{url}?tls_ca={}", ca.display());
            let good = with(verified(&server), &authority.ca());
            assert!(connect(good).await.is_ok());
            // A certificate turns the verification on for `mysql://`, too.
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
    });
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    steady(async || {
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
    });
}

#[test]
fn a_server_without_tls_is_refused() {
    steady(async || {
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
    });
}

#[test]
fn a_server_that_wants_tls_is_reached_without_a_setting() {
    steady(async || {
        let authority = Authority::new();
        let wants = ["--require-secure-transport=ON"];
        let server = SqlServer::start_with_tls(SqlVendor::MariaDb, &authority, &wants);
        assert!(connect(server.url()).await.is_ok());
    });
}

#[test]
fn fields_win_over_the_url() {
    steady(async || {
        let authority = Authority::new();
        let server = SqlServer::start_with_tls::<&str>(SqlVendor::MariaDb, &authority, &[]);
        crate::fields_win_over_the_url(&verified(&server), &authority).await;
    });
}
