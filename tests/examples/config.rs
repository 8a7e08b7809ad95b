//! The configurations in `examples/config`: only one line of a file differs from store to store.

use std::fs;
use std::path::{Path, PathBuf};

use lock_testkit::steady;
use polylock::Config;

use crate::example;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/config")
}

fn configurations() -> Vec<(String, Config)> {
    let files = fs::read_dir(directory()).expect("it is part of the project");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("it can be read");
        let config = toml::from_str(&text);
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        (
            name,
            config.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        )
    };
    files
        .map(|file| read(file.expect("a file").path()))
        .collect()
}

/// Runs both examples on the store at `url`, which a file names.
fn both_run_with(url: &str) {
    let directory = tempfile::tempdir().expect("a place for a file");
    let file = directory.path().join("locks.toml");
    fs::write(&file, format!("url = \"{url}\"\nnamespace = \"config\"\n"))
        .expect("it can be written");
    let file = file.to_str().expect("text");
    for (name, more) in [
        ("coupon", ["--strategy", "polylock"]),
        ("refund", ["--mechanism", "lock"]),
    ] {
        let output = example::run(name, &[&["--json", "--config", file], &more[..]].concat());
        assert!(output.status.success(), "{name} with {url}: {output:?}");
    }
}

#[test]
fn there_is_one_for_each_backend_and_they_differ_in_the_url_alone() {
    let (several, single): (Vec<_>, Vec<_>) = configurations()
        .into_iter()
        .partition(|(_, config)| config.url.is_empty());
    assert_eq!(several.len(), 1);
    let schemes = ["memory", "redis", "mysql", "etcd", "zookeeper"];
    for scheme in schemes {
        let of_scheme = |(_, config): &&(String, Config)| config.url.starts_with(scheme);
        assert!(
            single.iter().any(|one| of_scheme(&one)),
            "no file for {scheme}"
        );
    }
    for (name, config) in single {
        let alone = Config {
            namespace: Some("examples".to_owned()),
            ..Config::new(config.url.clone())
        };
        assert_eq!(config, alone, "{name}");
    }
}

#[test]
fn both_examples_run_with_a_file() {
    steady(async || {
        both_run_with("memory://");
    });
}

#[cfg(feature = "redis")]
#[test]
fn both_examples_run_with_a_file_for_redis() {
    steady(async || {
        both_run_with(&lock_testkit::servers::RedisServer::start().url());
    });
}

#[cfg(all(feature = "redis", feature = "etcd"))]
#[test]
fn routes_send_each_example_to_its_store() {
    steady(async || {
        use lock_testkit::servers::{EtcdCluster, RedisServer};

        let (redis, etcd) = (RedisServer::start(), EtcdCluster::start(1));
        let directory = tempfile::tempdir().expect("a place for a file");
        let file = directory.path().join("locks.toml");
        let text = format!(
            "[locks.fast]\nurl = '{}'\n[locks.queue]\nurl = '{}'\n\
         [routes]\n'coupon/*' = 'fast'\n'refund/*' = 'queue'\n",
            redis.url(),
            etcd.url()
        );
        fs::write(&file, text).expect("it can be written");
        let file = file.to_str().expect("text");
        let revision = || etcd.control(&["get", "-w", "fields", "k"]);
        let before = revision();
        let coupons = example::run("coupon", &["--config", file, "--strategy", "polylock"]);
        assert!(coupons.status.success(), "{coupons:?}");
        assert_eq!(revision(), before, "coupons went to etcd");
        let refunds = example::run("refund", &["--config", file, "--mechanism", "lock"]);
        assert!(refunds.status.success(), "{refunds:?}");
        assert_ne!(revision(), before, "refunds did not go to etcd");
    });
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_with_its_name() {
    for name in ["coupon", "refund"] {
        let output = example::run(name, &["--config", "/nowhere/locks.toml"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("/nowhere/locks.toml"), "{message}");
        let both = example::run(name, &["--config", "a.toml", "--lock", "memory://"]);
        assert_eq!(both.status.code(), Some(2), "{both:?}");
    }
}
