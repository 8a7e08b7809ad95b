//! The torture example: no store breaks a promise, and the records show the faults.
//!
//! The checks would notice a broken store.

use std::collections::BTreeMap;
use std::process::Output;

use lock_testkit::steady;
use serde::Deserialize;

use crate::example;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    seed: u64,
    grants: u64,
    contended_grants: u64,
    faults: BTreeMap<String, u64>,
    losses: u64,
    removals: u64,
    violations: u64,
    max_recovery_ms: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Control {
    stops: u64,
    plain: Updates,
    fenced: Updates,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Updates {
    updates: u64,
    lost: u64,
}

/// The faults of a worker that every store has.
const TO_WORKERS: [&str; 2] = ["kill_worker", "stop_worker"];

#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]
const ON_THE_WAY: [&str; 9] = [
    "cut",
    "cut_midway",
    "delay",
    "half_close",
    "lose",
    "reset",
    "stall",
    "swallow_reply",
    "swallow_reply_silently",
];

fn run(arguments: &[&str]) -> Output {
    example::run("torture", &[&["--json"], arguments].concat())
}

/// Torments a store for a while, and asserts that no promise was broken.
fn torment(arguments: &[&str]) -> Report {
    let output = run(arguments);
    lock_testkit::assert_excluded!(output.status.success(), "{arguments:?}: {output:?}");
    let report: Report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no JSON on stdout: {error}\n{output:?}"));
    lock_testkit::assert_excluded!(report.violations == 0, "{report:?}");
    assert!(report.grants > 100, "{report:?}");
    assert!(report.contended_grants * 10 > report.grants, "{report:?}");
    assert!(report.contended_grants <= report.grants, "{report:?}");
    assert!(report.max_recovery_ms >= 0.0, "{report:?}");
    assert!(report.losses <= report.grants, "{report:?}");
    assert!(!struck(&report).is_empty(), "{report:?}");
    report
}

/// Returns the kinds of faults that struck a holder.
fn struck(report: &Report) -> Vec<&str> {
    let struck = report.faults.iter().filter(|(_, count)| **count > 0);
    struck.map(|(kind, _)| kind.as_str()).collect()
}

#[test]
fn nothing_breaks_on_memory() {
    steady(async || {
        let report = torment(&["--minutes", "0.15", "--seed", "7"]);
        assert_eq!(report.seed, 7);
        assert_eq!(report.removals, 0, "nobody removes anything: {report:?}");
        assert_eq!(struck(&report), TO_WORKERS);
    });
}

#[test]
fn nor_where_holds_are_handed_on() {
    steady(async || {
        let report = torment(&["--minutes", "0.15", "--hand-off", "10ms"]);
        assert_eq!(struck(&report), TO_WORKERS);
    });
}

/// Torments a store and its private server; each kind of fault is drawn as often as any other.
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]
fn torment_server(store: &str, torments: &[&str]) {
    steady(async || {
        // It is chance which faults strike a holder. In a short run, no fault of the server may
        // strike any.
        let (mut has_missed, mut served) = (true, false);
        for _ in 0..3 {
            let report = torment(&["--server", "--lock", store, "--minutes", "0.25"]);
            let struck = struck(&report);
            let to_workers = TO_WORKERS.iter().chain(&ON_THE_WAY);
            // Each kind comes a few times only, and may strike no holder.
            has_missed = to_workers.filter(|kind| !struck.contains(kind)).count() > 6;
            served = torments.iter().any(|kind| struck.contains(kind));
            if served && !has_missed {
                return;
            }
            eprintln!("{report:?}");
        }
        panic!("workers were missed: {has_missed}, a server was struck: {served}");
    });
}

#[cfg(feature = "redis")]
#[test]
fn nor_on_redis() {
    torment_server(
        "redis://",
        &[
            "clock_ahead",
            "clock_back",
            "delete_locks",
            "flush",
            "kill_clients",
            "kill_server",
            "stop_server",
        ],
    );
}

#[cfg(feature = "mysql")]
#[test]
fn nor_on_mysql() {
    torment_server(
        "mysql://?hold=lease",
        &[
            "clock_ahead",
            "clock_back",
            "delete_locks",
            "kill_clients",
            "kill_server",
            "stop_server",
        ],
    );
}

#[cfg(feature = "mysql")]
#[test]
fn nor_on_rows_of_mysql() {
    torment_server(
        "mysql://?hold=row",
        &[
            "clock_ahead",
            "clock_back",
            "kill_clients",
            "kill_server",
            "stop_server",
        ],
    );
}

#[cfg(feature = "etcd")]
#[test]
fn nor_on_etcd() {
    torment_server(
        "etcd://",
        &[
            "delete_locks",
            "kill_leader",
            "kill_member",
            "lose_quorum",
            "stop_leader",
            "stop_member",
        ],
    );
}

#[cfg(feature = "zookeeper")]
#[test]
fn nor_on_zookeeper() {
    torment_server(
        "zookeeper://",
        &[
            "kill_leader",
            "kill_member",
            "lose_quorum",
            "stop_leader",
            "stop_member",
        ],
    );
}

/// Without `--server`, the server is left alone.
#[cfg(feature = "redis")]
#[test]
fn a_server_of_others_is_not_harmed() {
    steady(async || {
        use lock_testkit::servers::RedisServer;

        let server = RedisServer::start();
        let process = server.pid();
        server.client().command(&["SET", "theirs", "kept"]).unwrap();
        let report = torment(&["--lock", &server.url(), "--minutes", "0.1"]);
        assert!(
            struck(&report).iter().all(|kind| !kind.contains("server")),
            "{report:?}"
        );
        assert_eq!(report.removals, 0, "{report:?}");
        assert_eq!(server.pid(), process);
        let kept = server.client().command(&["GET", "theirs"]).unwrap();
        assert_eq!(kept.text().as_deref(), Some("kept"));
    });
}

/// Asserts that stopped holders overwrite later updates, unless tokens are checked.
fn assert_tokens_help(store: &str) {
    let output = run(&["--control", "--lock", store]);
    assert!(output.status.success(), "{output:?}");
    let control: Control = serde_json::from_slice(&output.stdout).expect("one object");
    assert!(control.stops >= 10, "{control:?}");
    assert!(
        control.plain.lost > 0 && control.plain.updates >= 1000,
        "{control:?}"
    );
    assert_eq!(control.fenced.lost, 0, "{control:?}");
    assert!(control.fenced.updates >= 1000, "{control:?}");
}

#[test]
fn stopped_holders_lose_updates_unless_tokens_are_checked() {
    steady(async || assert_tokens_help("memory://"));
}

#[cfg(feature = "redis")]
#[test]
fn so_do_processes_that_are_stopped() {
    steady(async || {
        let server = lock_testkit::servers::RedisServer::start();
        assert_tokens_help(&server.url());
    });
}

#[test]
fn the_records_are_kept_where_they_are_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let records = directory.path().join("records");
    let wanted = records.to_str().unwrap();
    let output = run(&["--minutes", "0.05", "--records", wanted]);
    assert!(output.status.success(), "{output:?}");
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    let history = lock_testkit::history::History::read(&records).unwrap();
    let capabilities = polylock::Capabilities::new("memory");
    let rules = lock_testkit::history::Rules::new(&capabilities);
    assert_eq!(history.check(&rules).grants as u64, report.grants);
    let again = run(&["--minutes", "0.05", "--records", wanted]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    let message = String::from_utf8_lossy(&again.stderr);
    assert!(message.contains("is not empty"), "{message}");
}

#[test]
fn wrong_arguments_are_refused_with_status_2() {
    for arguments in [
        &["--minutes", "0"][..],
        &["--processes", "1"],
        &["--control", "--minutes", "1"],
        &["--seed", "dice"],
    ] {
        example::assert_refuses("torture", arguments);
    }
}

#[test]
fn a_store_that_cannot_be_had_is_an_error_with_status_1() {
    example::assert_misses_its_store("torture");
    let output = run(&["--server"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("memory:// has no server to start"),
        "{message}"
    );
}
