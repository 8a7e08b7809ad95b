//! Error texts of refused connections: they name the server, the problem and the remedy.

use std::error::Error as _;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};

use lock_core::{DistributedLock, Error, ErrorKind, Tls};
use lock_mysql::{MySqlConfig, MySqlLock};
use lock_testkit::servers::{Authority, SqlServer, SqlVendor};
use lock_testkit::steady;

use crate::{BOTH, LONG, connect, connect_with, exclusive, take};

async fn refusal(config: MySqlConfig) -> Error {
    let connecting = MySqlLock::connect(config).await;
    connecting.map(drop).expect_err("it cannot be had")
}

/// Returns the texts of the error and all its sources.
fn chain(error: &Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(next) = source {
        text = format!("{text}: {next}");
        source = next.source();
    }
    text
}

/// Asserts that `error` names the server once, and contains each of `parts` once.
fn assert_says(error: &Error, port: u16, parts: &[&str]) {
    let (text, server) = (chain(error), format!("127.0.0.1:{port}"));
    for part in [&[server.as_str()], parts].concat() {
        assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    }
    assert!(!format!("{text} {error:?}").contains("hush"), "{text}");
    assert_eq!(error.server(), Some(server.as_str()), "{text}");
}

/// Returns a port on which a foreign service sends `greeting` to each client.
fn somebody_else(greeting: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let mut connected = Vec::new();
        for stream in listener.incoming().take(20).flatten() {
            let mut stream = stream;
            // The client may have gone.
            let _unheard = stream.write_all(greeting);
            connected.push(stream);
        }
    });
    port
}

#[test]
fn a_refusal_to_connect_names_the_server_and_what_to_do() {
    steady(async || {
        let at = |port: u16| MySqlConfig::new(format!("mysql://app:hush@127.0.0.1:{port}/locks"));
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = nobody.local_addr().expect("an address").port();
        drop(nobody);
        let error = refusal(at(port)).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_says(&error, port, &["refused", "check that the server runs"]);

        for (greeting, says) in [
            (&b""[..], "check host and port"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "check host and port"),
            (b"\x0b\0\0\0\x09old server", "check host and port"),
        ] {
            let port = somebody_else(greeting);
            let error = refusal(at(port)).await;
            assert_says(&error, port, &[says, "MySQL or MariaDB server"]);
        }

        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let error = refusal(at(server.port())).await;
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert_says(
                &error,
                server.port(),
                &["Access denied", "check user and password"],
            );
            let missing = format!("mysql://root@127.0.0.1:{}/missing", server.port());
            let error = refusal(MySqlConfig::new(missing)).await;
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert_says(
                &error,
                server.port(),
                &["Unknown database", "create the database"],
            );
        }
    });
}

#[test]
fn a_server_that_has_gone_is_named_by_takes_and_releases() {
    steady(async || {
        for vendor in SqlVendor::available() {
            for hold in BOTH {
                let server = SqlServer::start(vendor);
                let locks = connect(&server, hold).await;
                let guard = take(&locks, "k", LONG).await;
                server.kill();
                let error = locks.acquire(exclusive("other", LONG)).await;
                let error = error.expect_err("nobody is there");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert_says(&error, server.port(), &["check that the server runs"]);
                if let Err(error) = guard.release().await {
                    assert_says(&error, server.port(), &[]);
                }
            }
        }
    });
}

#[test]
fn passwords_with_signs_are_understood() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            server.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'a+b/c=d:e&f'; GRANT ALL ON locks.* TO app@'127.0.0.1'");
            let url = format!(
                "mysql://app:a+b%2Fc=d:e&f@127.0.0.1:{}/locks",
                server.port()
            );
            drop(take(&connect_with(MySqlConfig::new(url)).await, "k", LONG).await);
        }
    });
}

#[test]
fn a_url_without_a_host_shows_no_password() {
    for url in [
        "mysql://u:hush",
        "mysql://u:hush/d",
        "mysqls://u:hush?x",
        "mysql://u:1234",
    ] {
        let shown = format!("{:?}", MySqlConfig::new(url));
        assert!(
            !shown.contains("hush") && !shown.contains("1234"),
            "{shown}"
        );
    }
    let shown = format!("{:?}", MySqlConfig::new("mysql://u:hush@db:3307/d"));
    assert!(shown.contains("db:3307"), "{shown}");
}

/// OpenSSL issues version 1 if a certificate has no extensions.
#[test]
fn a_client_certificate_of_version_1_is_told() {
    steady(async || {
        let authority = Authority::new();
        let server = SqlServer::start_with_tls::<&str>(SqlVendor::MariaDb, &authority, &[]);
        let own = authority.issue("DNS:client", 1);
        let directory = own.cert.parent().expect("a directory");
        let run = |arguments: &[&str]| {
            let mut command = std::process::Command::new("openssl");
            let output = command.args(arguments).current_dir(directory).output();
            assert!(output.expect("openssl").status.success(), "{arguments:?}");
        };
        let key = own.key.display().to_string();
        run(&[
            "req", "-new", "-key", &key, "-subj", "/CN=old", "-out", "old.csr",
        ]);
        run(&[
            "x509", "-req", "-in", "old.csr", "-signkey", &key, "-out", "old.pem", "-days", "1",
        ]);
        let tls = Tls::new()
            .with_ca(authority.ca())
            .with_client_certificate(directory.join("old.pem"), &own.key);
        let url = format!("mysqls://root@127.0.0.1:{}/locks", server.port());
        let error = refusal(MySqlConfig::new(url).with_tls(tls)).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(
            error.to_string().contains("X.509 certificate of version 1"),
            "{error}"
        );
    });
}
