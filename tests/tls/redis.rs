//! TLS on Redis: `rediss://`.

use lock_testkit::servers::{Authority, RedisServer};
use lock_testkit::steady;

#[test]
fn url_and_fields_name_the_same_certificates() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls(&authority, &["--tls-auth-clients", "yes"]);
        let url = server.tls_url().expect("it was started with TLS");
        let refused = "set tls_cert and tls_key";
        crate::url_and_fields_name_the_same_certificates(&url, &authority, refused).await;
    });
}

#[test]
fn fields_win_over_the_url() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let url = server.tls_url().expect("it was started with TLS");
        crate::fields_win_over_the_url(&url, &authority).await;
    });
}
