//! Locks over TLS, and errors of refused connections, which name the next step.

use std::path::Path;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLockExt, Error, ErrorKind, Tls};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::answered;
use lock_testkit::servers::{Authority, RedisServer};
use lock_testkit::steady;
use tokio::time::Instant;

use crate::{lock_for, tracks_a_key};

fn secure_url(server: &RedisServer) -> String {
    server.tls_url().expect("it was started with TLS")
}

fn trusting(server: &RedisServer, authority: &Authority) -> RedisConfig {
    RedisConfig::new(secure_url(server)).with_tls(Tls::new().with_ca(authority.ca()))
}

async fn open(config: RedisConfig) -> RedisLock {
    answered(|| RedisLock::connect(config.clone())).await
}

async fn refusal(config: RedisConfig) -> Error {
    match RedisLock::connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

fn assert_refusal(error: &Error, kind: ErrorKind, advice: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(advice), "{error}");
}

#[test]
fn locks_are_taken_awaited_and_released_over_tls() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let [first, second] = [
            open(trusting(&server, &authority)).await,
            open(trusting(&server, &authority)).await,
        ];
        let guard = first.lock("k").await.unwrap();
        lock_testkit::assert_excluded!(second.try_lock("k").await.unwrap().is_none());
        let releasing = async {
            tracks_a_key(&server).await;
            let released = Instant::now();
            assert_eq!(guard.release().await.unwrap(), Released::Released);
            released
        };
        let waiting = async { (second.lock("k").await.unwrap(), Instant::now()) };
        let ((next, granted), released) = tokio::join!(waiting, releasing);
        let woken_after = granted.saturating_duration_since(released);
        assert!(woken_after < Duration::from_millis(500), "{woken_after:?}");
        assert!(next.is_held());
    });
}

#[test]
fn a_host_name_and_a_password_work_over_tls() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls(&authority, &["--requirepass", "p@ss/w?rd"]);
        let url = secure_url(&server).replace("127.0.0.1", ":p%40ss%2Fw%3Frd@localhost");
        let config = trusting(&server, &authority);
        let right = RedisConfig::new(url).with_tls(config.tls.clone());
        assert!(open(right).await.lock("k").await.unwrap().is_held());
        let url = config.url.replace("127.0.0.1", ":wr0ng@127.0.0.1");
        let wrong = RedisConfig::new(url).with_tls(config.tls.clone());
        for refused in [wrong, config] {
            let error = refusal(refused).await;
            assert_refusal(&error, ErrorKind::Denied, "check user and password");
        }
    });
}

#[test]
fn servers_that_demand_a_client_certificate_get_it() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls(&authority, &["--tls-auth-clients", "yes"]);
        let trusted = Tls::new().with_ca(authority.ca());
        let connect = |tls| RedisConfig::new(secure_url(&server)).with_tls(tls);

        let own = authority.issue("DNS:client", 1);
        let locks = open(connect(
            trusted.clone().with_client_certificate(&own.cert, &own.key),
        ))
        .await;
        assert!(locks.lock("k").await.unwrap().is_held());

        let none = refusal(connect(trusted.clone())).await;
        assert_refusal(&none, ErrorKind::Denied, "set tls_cert and tls_key");
        let others = Authority::new();
        let stranger = others.issue("DNS:client", 1);
        let foreign = trusted
            .clone()
            .with_client_certificate(&stranger.cert, &stranger.key);
        let error = refusal(connect(foreign)).await;
        assert_refusal(&error, ErrorKind::Denied, "check tls_cert and tls_key");
        let expired = authority.issue("DNS:client", -1);
        let expired = trusted.with_client_certificate(&expired.cert, &expired.key);
        let error = refusal(connect(expired)).await;
        assert_refusal(&error, ErrorKind::Denied, "check tls_cert and tls_key");
    });
}

#[test]
fn servers_that_cannot_be_trusted_are_refused() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let stranger = Authority::new();
        let untrusted = refusal(trusting(&server, &stranger)).await;
        assert_refusal(&untrusted, ErrorKind::Denied, "set tls_ca");
        // The platform's roots do not have the authority of this test.
        let by_platform = refusal(RedisConfig::new(secure_url(&server))).await;
        assert_refusal(&by_platform, ErrorKind::Denied, "set tls_ca");

        let shows = |names: &str, days| {
            let identity = authority.issue(names, days);
            let (cert, key) = (identity.cert.display(), identity.key.display());
            let arguments = [
                "--tls-cert-file".to_owned(),
                cert.to_string(),
                "--tls-key-file".to_owned(),
                key.to_string(),
            ];
            RedisServer::start_with_tls(&authority, &arguments)
        };
        let elsewhere = shows("DNS:elsewhere.example", 1);
        let error = refusal(trusting(&elsewhere, &authority)).await;
        assert_refusal(&error, ErrorKind::Denied, "use a host name");
        let expired = shows("IP:127.0.0.1", -1);
        let error = refusal(trusting(&expired, &authority)).await;
        assert_refusal(&error, ErrorKind::Denied, "renew the server's certificate");
    });
}

#[test]
fn tls_on_one_side_only_is_unavailable_and_named() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let plain_port = server.url().replace("redis://", "rediss://");
        let config = RedisConfig::new(plain_port).with_tls(Tls::new().with_ca(authority.ca()));
        let error = refusal(config).await;
        assert_refusal(&error, ErrorKind::Unavailable, "speaks TLS on this port");
        let tls_port = secure_url(&server).replace("rediss://", "redis://");
        let error = refusal(RedisConfig::new(tls_port)).await;
        assert_refusal(&error, ErrorKind::Unavailable, "rediss://");
    });
}

/// Most servers, unlike Redis, answer a request that they do not understand.
#[test]
fn a_server_that_answers_in_plain_text_is_unavailable() {
    steady(async || {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
                .await
                .unwrap();
            stream
        };
        let config = RedisConfig::new(format!("rediss://{address}"));
        let (error, _open) = tokio::join!(refusal(config), answering);
        assert_refusal(&error, ErrorKind::Unavailable, "does not seem to speak TLS");
    });
}

#[test]
fn wrong_files_are_named_before_anything_is_sent() {
    steady(async || {
        let authority = Authority::new();
        let [own, other] = [(); 2].map(|()| authority.issue("DNS:client", 1));
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let not_pem = server.directory().join("log");
        let nowhere = Path::new("/nowhere/at/all.pem");
        let trusted = Tls::new().with_ca(authority.ca());
        for (tls, names) in [
            (
                Tls::new().with_ca(nowhere),
                ["tls_ca: ", "/nowhere/at/all.pem"],
            ),
            (
                Tls::new().with_ca(&not_pem),
                ["tls_ca: ", "set it to a PEM file"],
            ),
            (
                Tls::new().with_ca(&own.key),
                ["tls_ca: ", "cannot read a certificate"],
            ),
            (
                trusted.clone().with_client_certificate(nowhere, &own.key),
                ["tls_cert: ", "/nowhere"],
            ),
            (
                trusted
                    .clone()
                    .with_client_certificate(&own.cert, &own.cert),
                ["tls_key: ", "cannot read a private key"],
            ),
            (
                trusted
                    .clone()
                    .with_client_certificate(&own.cert, &other.key),
                ["tls_key: ", "does not fit the certificate"],
            ),
        ] {
            let nobody_there = RedisConfig::new("rediss://127.0.0.1:1").with_tls(tls);
            let error = refusal(nobody_there).await;
            for name in names {
                assert_refusal(&error, ErrorKind::Config, name);
            }
        }
        let without_tls = refusal(RedisConfig::new(server.url()).with_tls(trusted)).await;
        assert_refusal(&without_tls, ErrorKind::Config, "tls_ca is set");
        assert_refusal(&without_tls, ErrorKind::Config, "use rediss://");
        let insecure = refusal(RedisConfig::new(secure_url(&server) + "/#insecure")).await;
        assert_refusal(&insecure, ErrorKind::Config, "always verified");
    });
}

#[test]
fn certificates_can_be_replaced_while_we_run() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let ca = server.directory().join("trusted.pem");
        std::fs::copy(authority.ca(), &ca).unwrap();
        let config = RedisConfig::new(secure_url(&server)).with_tls(Tls::new().with_ca(&ca));
        let locks = open(config).await;
        let cut = || {
            let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
            server.client().command(&kill).unwrap();
        };
        std::fs::write(&ca, "half a file").unwrap();
        cut();
        // Half a file is unusable, so the client uses the previous certificates.
        let guard = lock_for(&locks, "k", Duration::from_secs(5)).await;
        guard.release().await.unwrap();
        std::fs::copy(Authority::new().ca(), &ca).unwrap();
        cut();
        let error = locks.try_lock("k").await.unwrap_err();
        assert_refusal(&error, ErrorKind::Denied, "set tls_ca");
        std::fs::copy(authority.ca(), &ca).unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
}

#[test]
fn holds_and_waiters_survive_cut_connections_and_a_restart() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &["--appendonly", "yes"]);
        let locks = open(trusting(&server, &authority)).await;
        let guard = lock_for(&locks, "k", Duration::from_secs(2)).await;
        for _ in 0..5 {
            let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
            server.client().command(&kill).unwrap();
            let lost = tokio::time::timeout(Duration::from_millis(300), guard.lost()).await;
            assert!(lost.is_err(), "{lost:?}");
        }
        let waiting = locks.lock_within("k", Duration::from_secs(10));
        let interrupted = async {
            tracks_a_key(&server).await;
            server.restart();
            guard.release().await
        };
        let (next, released) = tokio::join!(waiting, interrupted);
        assert_eq!(released.unwrap(), Released::Released);
        assert!(next.unwrap().expect("released").is_held());
    });
}

#[test]
fn a_dropped_client_closes_its_connections() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        for _ in 0..5 {
            drop(open(trusting(&server, &authority)).await);
        }
        let alone = || async {
            let clients = server.client().command(&["CLIENT", "LIST"]).unwrap().text();
            clients.is_some_and(|clients| clients.lines().count() == 1)
        };
        lock_testkit::eventually(Duration::from_secs(5), "nobody is connected but us", alone).await;
    });
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_is_no_error() {
    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let locks = open(trusting(&server, &authority)).await;
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        for round in 0..10 {
            server.client().command(&kill).unwrap();
            let guard = locks.try_lock("k").await.unwrap().expect("free");
            server.client().command(&kill).unwrap();
            let released = guard.release().await.unwrap();
            assert_eq!(released, Released::Released, "round {round}");
        }
    });
}
