//! TLS on ZooKeeper: `zookeepers://`.

use lock_testkit::servers::{Authority, ZooKeeperServer};
use lock_testkit::steady;
use polylock::{ErrorKind, connect};

use crate::{assert_refused, refusal};

fn url(server: &ZooKeeperServer) -> String {
    let address = server.tls_address().expect("it was started with TLS");
    format!("zookeepers://{address}")
}

#[test]
fn url_and_fields_name_the_same_certificates() {
    steady(async || {
        let authority = Authority::new();
        let server = ZooKeeperServer::start_with_tls(&authority, &["ssl.clientAuth=need"]);
        let refused = "check tls_cert and tls_key";
        crate::url_and_fields_name_the_same_certificates(&url(&server), &authority, refused).await;
    });
}

#[test]
fn fields_win_over_the_url() {
    steady(async || {
        let authority = Authority::new();
        let server = ZooKeeperServer::start_with_tls(&authority, &[]);
        crate::fields_win_over_the_url(&url(&server), &authority).await;
    });
}

#[test]
fn a_server_that_is_not_trusted_is_refused() {
    steady(async || {
        let (authority, other) = (Authority::new(), Authority::new());
        let server = ZooKeeperServer::start_with_tls(&authority, &[]);
        let with = |ca: std::path::PathBuf| format!("{}?tls_ca={}", url(&server), ca.display());
        assert!(connect(with(authority.ca())).await.is_ok());
        for wrong in [with(other.ca()), url(&server)] {
            let error = refusal(wrong).await;
            assert_refused(&error, ErrorKind::Denied, "certificate");
        }
    });
}
