//! Every shape on each store, with servers of the test kit.

use std::ops::RangeInclusive;

use lock_testkit::servers::{
    EtcdCluster, RedisServer, Reply, SqlServer, SqlVendor, ZooKeeperServer,
};
use lock_testkit::steady;
use serde_json::Value;

use crate::program::{assert_missing, assert_within, figures};

/// One round trip, as measured on a machine that may be busy.
const ONE: RangeInclusive<f64> = 0.5..=1.5;

/// Runs every shape, each for the shortest time that gives meaningful figures.
fn run_every_shape(url: &str, store: &str, round_trips: RangeInclusive<f64>) {
    let free = figures(url, "--seconds 0.4 --tasks 2");
    assert_eq!(
        (free["store"].as_str(), free["shape"].as_str()),
        (Some(store), Some("free"))
    );
    assert_missing(&free, &["cpu_pct", "bytes_per_lock"]);
    assert_within(&free, "rate_vs_raw", 0.01, 100.0);
    assert_within(&free, "p50_vs_raw", 0.01, 100.0);
    assert_within(
        &free,
        "round_trips_per_acquire",
        *round_trips.start(),
        *round_trips.end(),
    );

    let hot = figures(url, "--shape hot --seconds 0.5");
    assert_missing(&hot, &["cpu_pct", "bytes_per_lock"]);
    let trips = |figures: &Value| figures["round_trips_per_acquire"].as_f64();
    let through_store = figures(url, "--shape hot --seconds 0.5 --tasks 4 --hand-off 0s");
    let both = trips(&hot).zip(trips(&through_store));
    let saved = both.is_some_and(|(handed_on, asked_for)| handed_on * 3.0 < asked_for);
    assert!(
        saved,
        "handed on: {hot}, each time through the store: {through_store}"
    );

    let procs = figures(url, "--shape procs --processes 2 --tasks 4 --seconds 1");
    assert_eq!(procs["process_shares"].as_array().map(Vec::len), Some(2));
    assert_within(&procs, "task_max", 1.0, 1e9);

    let handover = figures(url, "--shape handover --seconds 0.5");
    assert_missing(
        &handover,
        &[
            "rate",
            "raw_rate",
            "rate_vs_raw",
            "cpu_pct",
            "bytes_per_lock",
        ],
    );
    assert_within(&handover, "raw_p50_us", 1.0, 1e6);
    assert_within(&handover, "task_min", 2.0, 1e6);

    let held = figures(url, "--shape held --tasks 50 --seconds 0.5");
    assert_within(&held, "rate", 0.0, 1e6);
    assert_within(&held, "p50_us", 1.0, 1e7);
    assert_within(&held, "cpu_pct", 0.0, 800.0);
}

#[test]
fn redis() {
    steady(async || {
        let server = RedisServer::start();
        run_every_shape(&server.url(), "redis", ONE);
        assert_eq!(left_on(&server), 0, "locks are left on the server");
    });
}

/// Returns the number of keys besides the counter of grants.
fn left_on(server: &RedisServer) -> usize {
    let reply = server.client().command(&["KEYS", "*polylock-bench*"]);
    match reply.expect("the server runs") {
        Reply::Array(keys) => keys.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn leases_on_mariadb() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        run_every_shape(&server.url(), "mysql lease", ONE);
    });
}

#[test]
fn row_locks_on_mariadb() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let url = format!("{}?hold=row", server.url());
        run_every_shape(&url, "mysql row", ONE);
    });
}

#[test]
fn etcd() {
    steady(async || {
        let server = EtcdCluster::start(1);
        run_every_shape(&server.url(), "etcd", ONE);
    });
}

#[test]
fn zookeeper() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let url = format!("zookeeper://{}?namespace=bench", server.address());
        run_every_shape(&url, "zookeeper", 0.5..=2.0);
    });
}
