//! The errors that a first user meets, as the page `docs/errors.md`.
//!
//! `UPDATE_ERRORS=1 cargo test --all-features --test errors` writes the page anew.

#![cfg(all(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use polylock::{Config, DistributedLockExt, LockRequest, connect};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md");

/// The error of a URL whose cargo feature is missing, which `tests/config.rs` sees.
const NO_FEATURE: &str = "Config: redis:// needs the cargo feature `redis`, which is not compiled in: build with `--features redis`, or in Cargo.toml: polylock = { …, features = [\"redis\"] }";

/// URLs that `connect` refuses without asking a server.
const URLS: &[&str] = &[
    "",
    "localhost:6379",
    "carrier-pigeon://loft",
    "mariadb://db/app",
    "valkey://cache",
    "zk://one",
    "jdbc:mysql://db/app",
    "'memory://'",
    "memory://host",
    "memory://?tls_ca=ca.pem",
    "memory://?hold=row",
    "memory://?keeper=thread",
    "memory://?colour=blue",
    "memory://?ttl=5",
    "memory://?ttl=1ms",
    "memory://?ttl=25h",
    "memory://?ttl=2s&ttl=3s",
    "memory://?wait=2s",
    "memory://?namespace=",
    "memory://?lock_delay=24h",
    "memory://?hand_off=soon",
    "redis://",
    "redis://one,two",
    "redis://localhost:port",
    "redis://localhost/first",
    "redis://localhost?connections=3",
    "redis://localhost?tls_ca=ca.pem",
    "rediss://localhost?tls_ca=/no/such/file.pem",
    "rediss://localhost?tls_cert=client.pem",
    "mysql://app@localhost",
    "mysql://localhost/app",
    "mysql://localhost/app?hold=rows",
    "mysql://localhost/app?connections=0",
    "mysql://localhost/app?connections=many",
    "mysql://localhost/app?purge_after=5ms",
    "mysql://localhost/app?create_table=perhaps",
    "mysql://localhost/app?table=a.b.c",
    "mysql://localhost/app?sslmode=disabled",
    "etcd://",
    "etcd://localhost:port",
    "etcd://localhost?table=locks",
    "etcd://localhost/path",
    "zookeeper://",
    "zookeeper://localhost:port",
    "zookeeper://localhost/a//b",
    "zookeepers://localhost?hold=row",
];

/// URLs of servers that do not run. Port 1 is free on every machine.
const UNREACHABLE: [&str; 4] = [
    "redis://127.0.0.1:1",
    "mysql://app@127.0.0.1:1/app",
    "etcd://127.0.0.1:1",
    "zookeeper://127.0.0.1:1",
];

const FILES: [(&str, &str); 4] = [
    (
        "routes to a store that is missing",
        "[locks.fast]\nurl = 'memory://'\n[routes]\n'*' = 'slow'",
    ),
    ("stores without routes", "[locks.fast]\nurl = 'memory://'"),
    (
        "routes without stores",
        "url = 'memory://'\n[routes]\n'*' = 'fast'",
    ),
    ("no url", "ttl = '10s'"),
];

async fn refused(config: impl polylock::IntoConfig) -> String {
    match connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => told(error),
    }
}

fn told(error: polylock::Error) -> String {
    format!("{:?}: {error}", error.kind())
}

/// Returns the errors of requests on a store in memory.
async fn refused_requests() -> Vec<(&'static str, String)> {
    let locks = connect("memory://").await.expect("it needs no server");
    let long = "k".repeat(256);
    let short = LockRequest::exclusive("k").expect("a key");
    let short = short.with_ttl(Duration::from_millis(1));
    let mut errors = vec![
        ("lock(\"\")", told(locks.lock("").await.expect_err("empty"))),
        (
            "a key of 256 bytes",
            told(locks.lock(&long).await.expect_err("too long")),
        ),
        (
            "permit(\"k\", 0)",
            told(locks.permit("k", 0).await.expect_err("no permits")),
        ),
        (
            "with_ttl(1 ms)",
            told(locks.acquire(short).await.expect_err("too short")),
        ),
    ];
    let shut = locks.shutdown(Duration::from_secs(1));
    shut.await.expect("nothing is held");
    let closed = locks.try_lock("k").await.expect_err("closed");
    errors.push(("try_lock after shutdown", told(closed)));
    errors
}

#[tokio::test]
async fn errors_of_a_first_user_are_on_the_page() {
    let mut page = String::from(
        "# Errors\n\nWhat a first user meets, by where it happens. A test writes this page.\n",
    );
    let mut table = |title: &str, rows: Vec<(String, String)>| {
        write!(page, "\n## {title}\n\n| input | error |\n|---|---|\n").expect("memory");
        for (input, error) in rows {
            let error = error.replace('|', "\\|");
            let input = if input.is_empty() { "(empty)" } else { &input };
            writeln!(page, "| `{input}` | {error} |").expect("memory");
        }
    };
    let mut rows = Vec::new();
    for url in URLS {
        rows.push(((*url).to_owned(), refused(*url).await));
    }
    rows.push(("redis://localhost".to_owned(), NO_FEATURE.to_owned()));
    table("URLs", rows);
    let mut rows = vec![(
        "Config::from_env() without POLYLOCK_URL".to_owned(),
        told(Config::from_env().expect_err("it is not set")),
    )];
    for (what, file) in FILES {
        let error = match toml::from_str::<Config>(file) {
            Ok(config) => refused(config).await,
            Err(error) => format!("Config: {}", error.message()),
        };
        rows.push((what.to_owned(), error));
    }
    table("Environment and files", rows);
    let rows = refused_requests().await.into_iter();
    let rows = rows.map(|(input, error)| (input.to_owned(), error));
    table("Requests", rows.collect());
    let mut rows = Vec::new();
    for url in UNREACHABLE {
        rows.push((url.to_owned(), refused(url).await));
    }
    table("Servers that do not run", rows);
    if std::env::var_os("UPDATE_ERRORS").is_some() {
        fs::write(PAGE, &page).expect("the page");
    }
    let written = fs::read_to_string(PAGE).unwrap_or_default();
    assert_eq!(written, page, "write it anew with UPDATE_ERRORS=1");
}
