//! An application with a crypto provider of its own.

#![cfg(feature = "tls")]

use lock_core::{DistributedLockExt, Tls};
use lock_testkit::servers::{Authority, ZooKeeperServer};
use lock_testkit::steady;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};
use rustls::crypto::CryptoProvider;

#[test]
fn a_second_crypto_provider_in_the_process_does_no_harm() {
    steady(async || {
        // With two providers and no choice, asking for the process's default panics.
        assert!(CryptoProvider::get_default().is_none());
        assert!(
            std::panic::catch_unwind(rustls::ClientConfig::builder).is_err(),
            "there is one provider only, so this proves nothing"
        );
        let authority = Authority::new();
        let server = ZooKeeperServer::start_with_tls(&authority, &[]);
        let address = server.tls_address().expect("it was started with TLS");
        let config = ZooKeeperConfig::new(address).with_tls(Tls::new().with_ca(authority.ca()));
        let locks = ZooKeeperLock::connect(config).await;
        let locks = locks.expect("no need to choose");
        assert!(locks.lock("k").await.unwrap().is_held());
        assert!(
            CryptoProvider::get_default().is_some(),
            "the driver needs one"
        );
    });
}
