//! The coupon example: every flawed strategy fails in its known way.
//!
//! The correct strategies meet all the accidents, and do not fail.

use std::process::Output;

use lock_testkit::steady;
use serde::Deserialize;

use crate::example;

const FLAWED: [&str; 11] = [
    "none",
    "local-mutex",
    "setnx-no-expiry",
    "setnx-finally",
    "setnx-then-expire",
    "fixed-owner",
    "check-then-delete",
    "short-expiry",
    "optimistic",
    "two-locks",
    "nested-lock",
];

const CORRECT: [&str; 3] = ["polylock", "multi-key", "reentrant"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    strategies: Vec<Figures>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    name: String,
    sold: u32,
    oversold: u32,
    lost_updates: u32,
    double_orders: u32,
    stuck: u32,
    claims_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Figures {
    fn errors(&self) -> [u32; 4] {
        [
            self.oversold,
            self.lost_updates,
            self.double_orders,
            self.stuck,
        ]
    }

    /// Returns true if the strategy failed in its known way.
    fn fails_as_known(&self) -> bool {
        match self.name.as_str() {
            "none" | "local-mutex" => self.oversold > 0 && self.lost_updates > 0,
            "setnx-no-expiry" | "setnx-finally" | "setnx-then-expire" => {
                self.stuck == 1 && self.sold < 50
            }
            "fixed-owner" | "check-then-delete" | "short-expiry" => {
                self.lost_updates > 0 && self.stuck == 0
            }
            "optimistic" => {
                self.double_orders > 0
                    && self.sold == 50
                    && (self.oversold, self.lost_updates, self.stuck) == (0, 0, 0)
            }
            // All waiters give up before the deadlock ends.
            "two-locks" => self.sold < 25 && self.errors() == [0; 4],
            "nested-lock" => self.sold == 0 && self.errors() == [0; 4],
            other => panic!("{other} is not one of the flawed strategies"),
        }
    }
}

fn run(arguments: &[&str]) -> Output {
    example::run("coupon", arguments)
}

fn report(output: &Output) -> Vec<Figures> {
    let report: Report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no JSON on stdout: {error}\n{output:?}"));
    for row in &report.strategies {
        assert!(row.claims_per_s > 0.0, "{row:?}");
        assert!(row.p50_ms > 0.0 && row.p50_ms <= row.p99_ms, "{row:?}");
    }
    report.strategies
}

/// Asserts the whole comparison, as the documents describe it.
fn assert_only_the_flawed_fail(output: &Output) {
    let rows = report(output);
    let (flawed, correct) = rows.split_at(FLAWED.len());
    assert_eq!(names(flawed), FLAWED);
    for row in flawed {
        assert!(row.fails_as_known(), "{row:?}");
    }
    assert_eq!(names(correct), CORRECT);
    // The crash costs a ttl of one second, and the long work a further ttl and a quarter.
    assert_clean(correct, 2_000.0);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

fn names(rows: &[Figures]) -> Vec<&str> {
    rows.iter().map(|row| row.name.as_str()).collect()
}

/// Asserts that each of `rows` sold the stock without an error, and that its accidents took `least`
/// milliseconds.
fn assert_clean(rows: &[Figures], least: f64) {
    for row in rows {
        lock_testkit::assert_excluded!(row.errors() == [0; 4], "{row:?}");
        assert_eq!(row.sold, 50, "{row:?}");
        assert!(row.p99_ms > least, "the accidents did not happen: {row:?}");
    }
}

#[test]
fn every_flawed_strategy_fails_as_known_and_no_correct_one_does() {
    steady(async || {
        assert_only_the_flawed_fail(&run(&["--json"]));
    });
}

/// Separate processes run the strategies on a real server: only the URL changes.
#[cfg(feature = "redis")]
#[test]
fn on_redis_too() {
    steady(async || {
        use lock_testkit::servers::{RedisServer, Reply};

        let server = RedisServer::start();
        assert_only_the_flawed_fail(&run(&["--json", "--lock", &server.url()]));
        let left = server.client().command(&["DBSIZE"]);
        let left = left.expect("the server runs");
        assert_eq!(
            left,
            Reply::Integer(1),
            "something besides the counter of grants is left"
        );
    });
}

/// Asserts that the correct strategies are clean on the store. Most of the others need Redis.
#[cfg(any(feature = "etcd", feature = "mysql", feature = "zookeeper"))]
fn assert_correct_ones_are_clean(url: &str) {
    let mut arguments = vec!["--json", "--lock", url];
    for name in CORRECT {
        arguments.extend(["--strategy", name]);
    }
    let output = run(&arguments);
    let rows = report(&output);
    assert_eq!(names(&rows), CORRECT);
    // A row lock is free as soon as its holder crashes.
    assert_clean(&rows, 1_200.0);
    assert!(output.status.success(), "{url}: {output:?}");
}

#[cfg(feature = "mysql")]
#[test]
fn on_mysql_too() {
    steady(async || {
        use lock_testkit::servers::{SqlServer, SqlVendor};

        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in ["lease", "row"] {
                assert_correct_ones_are_clean(&format!("{}?hold={hold}", server.url()));
                let held = "select count(*) from locks where expires > utc_timestamp(6)";
                assert_eq!(server.execute(held), "0", "{vendor:?}, {hold}");
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
        assert_correct_ones_are_clean(&cluster.url());
        assert_eq!(cluster.control(&["get", "--prefix", ""]), "", "left");
    });
}

#[cfg(feature = "zookeeper")]
#[test]
fn on_zookeeper_too() {
    steady(async || {
        use std::time::Duration;

        use lock_testkit::servers::{ZooKeeperMember, ZooKeeperServer};

        let ensemble = ZooKeeperServer::start_three();
        let url = format!("zookeeper://{}/coupons", ensemble.address());
        assert_correct_ones_are_clean(&url);
        // The followers learn of a release a little later than the leader.
        lock_testkit::eventually(Duration::from_secs(10), "no claim is left", async || {
            let left = |member: &ZooKeeperMember| member.figure("zk_ephemerals_count");
            ensemble
                .members()
                .iter()
                .all(|member| left(member) == Some(0))
        })
        .await;
    });
}

#[test]
fn the_flawed_strategies_fail_in_separate_processes_too() {
    let mut arguments = vec!["--json", "--processes"];
    let needs_shared_memory = ["two-locks", "nested-lock"];
    for name in FLAWED
        .into_iter()
        .filter(|name| !needs_shared_memory.contains(name))
    {
        arguments.extend(["--strategy", name]);
    }
    let output = run(&arguments);
    for row in report(&output) {
        assert!(row.fails_as_known(), "{row:?}");
    }
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_polylock_that_the_instances_do_not_share_is_found_out() {
    let output = run(&["--json", "--processes", "--strategy", "polylock"]);
    let rows = report(&output);
    assert!(rows[0].oversold > 0, "{rows:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn polylock_survives_the_crash_of_the_only_instance() {
    steady(async || {
        let output = run(&["--json", "--instances", "1", "--strategy", "polylock"]);
        let rows = report(&output);
        lock_testkit::assert_excluded!(rows[0].errors() == [0; 4], "{rows:?}");
        assert_eq!(rows[0].sold, 50, "{rows:?}");
        assert!(output.status.success(), "{output:?}");
    });
}

#[test]
fn the_table_has_a_line_for_each_strategy() {
    let output = run(&["--strategy", "optimistic", "--strategy", "none"]);
    let table = String::from_utf8_lossy(&output.stdout);
    let (none, optimistic) = (table.find("none"), table.find("optimistic"));
    assert!(none.is_some() && none < optimistic, "{table}");
    assert!(table.contains("what went wrong"), "{table}");
}

#[test]
fn wrong_arguments_are_refused_with_status_2() {
    for arguments in [
        ["--buyers", "0"],
        ["--stock", "0"],
        ["--instances", "0"],
        ["--buyers", "99"],
        ["--strategy", "hope"],
    ] {
        example::assert_refuses("coupon", &arguments);
    }
}

#[test]
fn a_store_that_cannot_be_had_is_an_error_with_status_1() {
    example::assert_misses_its_store("coupon");
}
