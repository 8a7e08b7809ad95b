//! Locks over TLS, and errors of refused connections, which name the next step.

use lock_core::backend::Released;
use lock_core::{DistributedLockExt, Error, ErrorKind, Tls};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::answered;
use lock_testkit::servers::{Authority, EtcdCluster};
use lock_testkit::steady;

use crate::{Beside, queue_has};

fn trusting(cluster: &EtcdCluster, authority: &Authority) -> EtcdConfig {
    EtcdConfig::new(cluster.url()).with_tls(Tls::new().with_ca(authority.ca()))
}

async fn open(config: EtcdConfig) -> EtcdLock {
    answered(|| EtcdLock::connect(config.clone())).await
}

/// Checks that `connect` is refused with `kind` and `advice`.
///
/// A member that had no time to answer has not refused, so the test connects again.
async fn assert_refusal(config: EtcdConfig, kind: ErrorKind, advice: &str) {
    const ASKED: usize = 20;
    let mut told = String::new();
    for _ in 0..ASKED {
        let error: Error = match EtcdLock::connect(config.clone()).await {
            Ok(locks) => panic!("connected to {locks:?}"),
            Err(error) => error,
        };
        told = error.to_string();
        if !told.contains("no answer within") {
            assert_eq!(error.kind(), kind, "{told}");
            assert!(told.contains(advice), "{told}");
            return;
        }
    }
    panic!("asked {ASKED} times: {told}");
}

#[test]
fn locks_are_taken_awaited_and_released_over_tls() {
    steady(async || {
        let authority = Authority::new();
        let cluster = EtcdCluster::start_with_tls::<&str>(&authority, &[]);
        let [first, second] = [
            open(trusting(&cluster, &authority)).await,
            open(trusting(&cluster, &authority)).await,
        ];
        let guard = first.lock("k").await.unwrap();
        lock_testkit::assert_excluded!(second.try_lock("k").await.unwrap().is_none());
        let mut waiting = Beside::run(async move { second.lock("k").await });
        queue_has(&cluster, "k", 2).await;
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        assert!(waiting.outcome().await.unwrap().is_held());
    });
}

#[test]
fn servers_that_demand_a_client_certificate_get_it() {
    steady(async || {
        let authority = Authority::new();
        let ca = authority.ca().display().to_string();
        let demand = ["--client-cert-auth", "--trusted-ca-file", &ca];
        let cluster = EtcdCluster::start_with_tls(&authority, &demand);
        let trusted = Tls::new().with_ca(authority.ca());
        let with = |tls| EtcdConfig::new(cluster.url()).with_tls(tls);

        let own = authority.issue("DNS:client", 1);
        let shown = trusted.clone().with_client_certificate(&own.cert, &own.key);
        assert!(open(with(shown)).await.lock("k").await.unwrap().is_held());

        let advice = "tls_cert and tls_key";
        assert_refusal(with(trusted.clone()), ErrorKind::Denied, advice).await;
        let others = Authority::new();
        let stranger = others.issue("DNS:client", 1);
        let foreign = trusted
            .clone()
            .with_client_certificate(&stranger.cert, &stranger.key);
        let expired = authority.issue("DNS:client", -1);
        let expired = trusted.with_client_certificate(&expired.cert, &expired.key);
        for refused in [foreign, expired] {
            assert_refusal(with(refused), ErrorKind::Denied, advice).await;
        }
    });
}

#[test]
fn servers_that_cannot_be_trusted_are_refused() {
    steady(async || {
        let authority = Authority::new();
        let cluster = EtcdCluster::start_with_tls::<&str>(&authority, &[]);
        let stranger = Authority::new();
        let by_stranger = trusting(&cluster, &stranger);
        assert_refusal(by_stranger, ErrorKind::Denied, "set tls_ca").await;
        // The platform's roots do not have the authority of this test.
        let by_platform = EtcdConfig::new(cluster.url());
        assert_refusal(by_platform, ErrorKind::Denied, "set tls_ca").await;
    });
}

#[test]
fn no_tls_at_the_other_end_is_told() {
    steady(async || {
        let authority = Authority::new();
        let cluster = EtcdCluster::start(1);
        let secure = EtcdConfig::new(cluster.url().replace("etcd://", "etcds://"))
            .with_tls(Tls::new().with_ca(authority.ca()));
        let at = cluster.endpoints();
        let told = format!("cannot connect to etcd at {at}: ");
        assert_refusal(secure.clone(), ErrorKind::Unavailable, &told).await;
        assert_refusal(secure, ErrorKind::Unavailable, "use its TLS port, or").await;
        let with_tls = EtcdCluster::start_with_tls::<&str>(&authority, &[]);
        let plain = EtcdConfig::new(with_tls.url().replace("etcds://", "etcd://"));
        let at = with_tls.endpoints();
        let told = format!("cannot connect to etcd at {at}: ");
        assert_refusal(plain.clone(), ErrorKind::Unavailable, &told).await;
        assert_refusal(plain, ErrorKind::Unavailable, "use etcds:// (with tls_ca)").await;
    });
}

#[test]
fn a_client_certificate_of_version_1_is_named() {
    steady(async || {
        let authority = Authority::new();
        let cluster = EtcdCluster::start_with_tls::<&str>(&authority, &[]);
        let old = authority.issue_version_1();
        let tls = Tls::new().with_ca(authority.ca());
        let config = EtcdConfig::new(cluster.url())
            .with_tls(tls.with_client_certificate(&old.cert, &old.key));
        let advice = "holds an X.509 certificate of version 1";
        assert_refusal(config.clone(), ErrorKind::Config, advice).await;
        assert_refusal(config, ErrorKind::Config, &old.cert.display().to_string()).await;
    });
}

#[test]
fn settings_that_do_not_fit_are_named() {
    steady(async || {
        let files = Tls::new().with_ca("/nowhere/ca.pem");
        let without = EtcdConfig::new("etcd://localhost").with_tls(files.clone());
        assert_refusal(
            without,
            ErrorKind::Config,
            "tls_ca is set, and etcd:// has no TLS",
        )
        .await;
        let cluster = EtcdCluster::shared();
        let missing = EtcdConfig::new(cluster.url().replace("etcd://", "etcds://")).with_tls(files);
        assert_refusal(missing, ErrorKind::Config, "/nowhere/ca.pem").await;
    });
}
