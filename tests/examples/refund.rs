//! The refund example: each refund is paid exactly once, although peers are killed during their
//! work.
//!
//! This holds with every mechanism on every store.

use std::process::Output;

use lock_testkit::steady;
use serde::Deserialize;

use crate::example;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    mechanisms: Vec<Figures>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    name: String,
    at_once: u32,
    in_turn: u32,
    by_compensation: u32,
    declined: u32,
    double: u32,
    over_refunded: u32,
    lost: u32,
    wrong_books: u32,
    interval_violations: u32,
    order_violations: u32,
    refused_writes: u32,
    kills: u32,
    blocked_ms: Option<f64>,
    round_trips: Option<f64>,
    refunds_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Figures {
    fn paid(&self) -> u32 {
        self.at_once + self.in_turn + self.by_compensation
    }

    fn errors(&self) -> [u32; 5] {
        [
            self.double,
            self.over_refunded,
            self.lost,
            self.wrong_books,
            self.interval_violations,
        ]
    }
}

fn run(arguments: &[&str]) -> Output {
    example::run("refund", arguments)
}

fn report(output: &Output) -> Vec<Figures> {
    let report: Report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no JSON on stdout: {error}\n{output:?}"));
    for row in &report.mechanisms {
        assert!(row.refunds_per_s > 0.0, "{row:?}");
        assert!(row.p50_ms <= row.p99_ms, "{row:?}");
    }
    report.mechanisms
}

/// Asserts that of the four refunds of each of 24 trades three were paid and the fourth was
/// declined.
fn assert_is_clean(row: &Figures, killed: u32) {
    lock_testkit::assert_excluded!(row.errors() == [0; 5], "{row:?}");
    assert_eq!((row.paid(), row.declined), (72, 24), "{row:?}");
    assert_eq!(row.kills, killed, "{row:?}");
    match row.name.as_str() {
        "lock" => assert_eq!(row.in_turn, 0, "{row:?}"),
        "queue" => assert_eq!((row.at_once, row.order_violations), (0, 0), "{row:?}"),
        other => panic!("{other} does not protect anything"),
    }
}

/// Asserts that all mechanisms of the store are clean.
fn assert_are_clean(url: &str, mechanisms: &[&str]) {
    let output = run(&["--json", "--lock", url]);
    assert!(output.status.success(), "{url}: {output:?}");
    let rows = report(&output);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names[0], "none");
    assert_eq!(names[1..], *mechanisms);
    for row in &rows[1..] {
        assert_is_clean(row, 3);
        // A server costs at least one round trip; memory costs none.
        let expected = if url.starts_with("memory") {
            0.0..=0.0
        } else {
            1.0..=9.0
        };
        let counted = row.round_trips.expect("nothing is encrypted here");
        assert!(expected.contains(&counted), "{url}: {counted} round trips");
    }
}

#[test]
fn everything_is_paid_exactly_once_on_memory() {
    steady(async || {
        assert_are_clean("memory://", &["lock", "queue"]);
    });
}

#[test]
fn without_any_protection_things_go_wrong() {
    let wrong = (0..3).any(|_| {
        let output = run(&["--json", "--mechanism", "none", "--interval", "0"]);
        assert!(output.status.success(), "{output:?}");
        let rows = report(&output);
        rows[0].errors() != [0; 5]
    });
    assert!(wrong, "nothing goes wrong without protection");
}

#[cfg(feature = "redis")]
#[test]
fn on_redis_too() {
    steady(async || {
        use lock_testkit::servers::RedisServer;

        let server = RedisServer::start();
        assert_are_clean(&server.url(), &["lock"]);
    });
}

#[cfg(feature = "mysql")]
#[test]
fn on_mysql_too() {
    steady(async || {
        use lock_testkit::servers::{SqlServer, SqlVendor};

        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in ["lease", "row"] {
                assert_are_clean(&format!("{}?hold={hold}", server.url()), &["lock"]);
            }
        }
    });
}

#[cfg(feature = "etcd")]
#[test]
fn on_etcd_too() {
    steady(async || {
        use lock_testkit::servers::EtcdCluster;

        let cluster = EtcdCluster::start(3);
        assert_are_clean(&cluster.url(), &["lock", "queue"]);
    });
}

#[cfg(feature = "zookeeper")]
#[test]
fn on_zookeeper_too() {
    steady(async || {
        use lock_testkit::servers::ZooKeeperServer;

        let ensemble = ZooKeeperServer::start_three();
        let url = format!("zookeeper://{}/refunds", ensemble.address());
        assert_are_clean(&url, &["lock", "queue"]);
    });
}

#[test]
fn nobody_who_is_killed_is_nobody_who_blocks() {
    steady(async || {
        let output = run(&["--json", "--kills", "0", "--mechanism", "lock"]);
        let rows = report(&output);
        assert_is_clean(&rows[0], 0);
        assert_eq!(rows[0].blocked_ms, None);
        assert_eq!(rows[0].refused_writes, 0);
    });
}

#[test]
fn the_table_has_a_line_for_each_mechanism() {
    let output = run(&[
        "--kills",
        "0",
        "--mechanism",
        "queue",
        "--mechanism",
        "lock",
    ]);
    let table = String::from_utf8_lossy(&output.stdout);
    let (lock, queue) = (table.find("│ lock"), table.find("│ queue"));
    assert!(lock.is_some() && lock < queue, "{table}");
    assert!(!table.contains("│ none"), "{table}");
}

#[test]
fn wrong_arguments_are_refused_with_status_2() {
    for arguments in [
        ["--trades", "0"],
        ["--peers", "0"],
        ["--mechanism", "hope"],
        ["--interval", "-1"],
    ] {
        example::assert_refuses("refund", &arguments);
    }
}

#[test]
fn a_store_that_cannot_be_had_is_an_error_with_status_1() {
    example::assert_misses_its_store("refund");
}
