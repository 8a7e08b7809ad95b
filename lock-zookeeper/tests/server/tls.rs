//! Locks over TLS, and errors of refused connections, which name the next step.

use lock_core::{DistributedLockExt, Error, ErrorKind, Tls};
use lock_testkit::servers::{Authority, ZooKeeperServer};
use lock_testkit::steady;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

fn secure(server: &ZooKeeperServer, tls: Tls) -> ZooKeeperConfig {
    let address = server.tls_address().expect("it was started with TLS");
    ZooKeeperConfig::new(address).with_tls(tls)
}

async fn refusal(config: ZooKeeperConfig) -> Error {
    match ZooKeeperLock::connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

fn assert_refused(error: &Error, kind: ErrorKind, part: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn either_side_looks_at_the_certificate_of_the_other() {
    steady(async || {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let server = ZooKeeperServer::start_with_tls(&authority, &["ssl.clientAuth=need"]);
        let ours = authority.issue("DNS:client", 1);
        let trusting = Tls::new().with_ca(authority.ca());
        let known = trusting
            .clone()
            .with_client_certificate(&ours.cert, &ours.key);
        let locks = ZooKeeperLock::connect(secure(&server, known))
            .await
            .unwrap();
        let guard = locks.lock("k").await.unwrap();
        guard.release().await.unwrap();
        let nobody = refusal(secure(&server, trusting.clone())).await;
        assert_refused(&nobody, ErrorKind::Denied, "check tls_cert and tls_key");
        let theirs = stranger.issue("DNS:client", 1);
        let unknown = trusting.with_client_certificate(&theirs.cert, &theirs.key);
        let unknown = refusal(secure(&server, unknown)).await;
        assert_refused(
            &unknown,
            ErrorKind::Denied,
            "which authorities the server trusts",
        );
        let other = Tls::new().with_ca(stranger.ca());
        let other = refusal(secure(&server, other)).await;
        assert_refused(&other, ErrorKind::Denied, "set tls_ca to");
        let platform = refusal(secure(&server, Tls::new())).await;
        assert_refused(&platform, ErrorKind::Denied, "set tls_ca to");
    });
}

#[test]
fn what_cannot_be_secure_is_refused_in_words() {
    steady(async || {
        let authority = Authority::new();
        let server = ZooKeeperServer::start();
        let tls = || Tls::new().with_ca(authority.ca());
        let plain = ZooKeeperConfig::new(server.address()).with_tls(tls());
        let plain = refusal(plain).await;
        assert_refused(&plain, ErrorKind::Unavailable, "speaks plain text");
        let nameless = ZooKeeperConfig::new("not a name:2181").with_tls(tls());
        let nameless = refusal(nameless).await;
        assert_refused(&nameless, ErrorKind::Config, "use the server's host name");
        let missing = ZooKeeperConfig::new("localhost:1").with_tls(Tls::new().with_ca("/nowhere"));
        let missing = refusal(missing).await;
        assert_refused(&missing, ErrorKind::Config, "from /nowhere");
        let half = {
            let mut tls = tls();
            tls.cert = Some("c".into());
            ZooKeeperConfig::new("localhost:1").with_tls(tls)
        };
        let half = refusal(half).await;
        assert_refused(&half, ErrorKind::Config, "tls_cert is set without tls_key");
    });
}
