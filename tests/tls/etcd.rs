//! TLS on etcd: `etcds://`.

use lock_testkit::servers::{Authority, EtcdCluster};
use lock_testkit::steady;
use polylock::{ErrorKind, connect};

use crate::{assert_refused, refusal};

#[test]
fn url_and_fields_name_the_same_certificates() {
    steady(async || {
        let authority = Authority::new();
        let ca = authority.ca().display().to_string();
        let demanding = ["--client-cert-auth", "--trusted-ca-file", &ca];
        let cluster = EtcdCluster::start_with_tls(&authority, &demanding);
        let refused = "check tls_cert and tls_key";
        crate::url_and_fields_name_the_same_certificates(&cluster.url(), &authority, refused).await;
    });
}

#[test]
fn fields_win_over_the_url() {
    steady(async || {
        let authority = Authority::new();
        let cluster = EtcdCluster::start_with_tls::<&str>(&authority, &[]);
        crate::fields_win_over_the_url(&cluster.url(), &authority).await;
    });
}

#[test]
fn a_server_that_is_not_trusted_is_refused() {
    steady(async || {
        let (authority, other) = (Authority::new(), Authority::new());
        let cluster = EtcdCluster::start_with_tls::<&str>(&authority, &[]);
        let with = |ca: std::path::PathBuf| format!("{}?tls_ca={}", cluster.url(), ca.display());
        assert!(connect(with(authority.ca())).await.is_ok());
        for wrong in [with(other.ca()), cluster.url()] {
            let error = refusal(wrong).await;
            assert_refused(&error, ErrorKind::Denied, "certificate");
        }
    });
}

#[test]
fn a_server_without_tls_is_refused() {
    steady(async || {
        let url = EtcdCluster::shared()
            .url()
            .replacen("etcd://", "etcds://", 1);
        let error = refusal(url).await;
        assert_refused(
            &error,
            ErrorKind::Unavailable,
            "use its TLS port, or etcd:// if it has none",
        );
    });
}
