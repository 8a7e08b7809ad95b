//! An application with a crypto provider of its own.

use lock_core::{DistributedLockExt, Tls};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::{Authority, RedisServer};
use lock_testkit::steady;

#[test]
fn a_second_crypto_provider_in_the_process_does_no_harm() {
    steady(async || {
        // With two providers and no choice, asking for the process's default panics.
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
        assert!(
            std::panic::catch_unwind(rustls::ClientConfig::builder).is_err(),
            "there is one provider only, so this proves nothing"
        );
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let url = server.tls_url().expect("it was started with TLS");
        let config = RedisConfig::new(url).with_tls(Tls::new().with_ca(authority.ca()));
        let locks = RedisLock::connect(config).await.expect("no need to choose");
        assert!(locks.lock("k").await.unwrap().is_held());
        assert!(
            rustls::crypto::CryptoProvider::get_default().is_none(),
            "the choice is the application's"
        );
    });
}
