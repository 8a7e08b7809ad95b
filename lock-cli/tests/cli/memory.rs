//! Every shape on memory, where no network disturbs the figures.

use crate::program::{assert_missing, assert_within, figures, polylock};

const URL: &str = "memory://";

#[test]
fn free_locks_are_compared_with_a_mutex() {
    let free = figures(URL, "--seconds 0.3");
    assert_eq!(free["store"], "memory");
    assert_eq!(free["shape"], "free");
    assert_eq!(
        (free["tasks"].as_u64(), free["processes"].as_u64()),
        (Some(1), Some(1))
    );
    assert_missing(&free, &["cpu_pct", "bytes_per_lock"]);
    assert_eq!(free["round_trips_per_acquire"], 0.0);
    assert_within(&free, "rate", 1000.0, 1e8);
    assert_within(&free, "p50_vs_raw", 1.0, 1e6);
}

#[test]
fn a_hot_key_has_as_many_tasks_as_are_asked_for() {
    let hot = figures(URL, "--shape hot --tasks 5 --seconds 0.5");
    assert_eq!(
        (hot["tasks"].as_u64(), hot["processes"].as_u64()),
        (Some(5), Some(1))
    );
    assert_missing(&hot, &["cpu_pct", "bytes_per_lock"]);
    let count = |name: &str| hot[name].as_u64().expect("a count");
    assert!(
        count("task_min") > 0 && count("task_min") <= count("task_max"),
        "{hot}"
    );
    assert!(
        count("p50_us") <= count("p90_us") && count("p99_us") <= count("max_us"),
        "{hot}"
    );
}

#[test]
fn processes_share_a_key() {
    let procs = figures(URL, "--shape procs --processes 3 --tasks 2 --seconds 1");
    assert_eq!(
        (procs["tasks"].as_u64(), procs["processes"].as_u64()),
        (Some(2), Some(3))
    );
    let shares = procs["process_shares"].as_array().expect("shares");
    let sum: f64 = shares.iter().filter_map(|share| share.as_f64()).sum();
    assert!(
        shares.len() == 3 && (0.999..=1.001).contains(&sum),
        "{procs}"
    );
}

#[test]
fn a_lock_is_handed_over_between_two() {
    let handover = figures(URL, "--shape handover --seconds 0.5");
    assert_eq!(handover["processes"], 2);
    let missing = [
        "rate",
        "raw_rate",
        "rate_vs_raw",
        "raw_p50_us",
        "p50_vs_raw",
        "cpu_pct",
        "bytes_per_lock",
    ];
    assert_missing(&handover, &missing);
    assert_within(&handover, "p50_us", 1.0, 1e6);
    assert_within(&handover, "task_min", 5.0, 1e6);
}

#[test]
fn held_locks_cost_processor_and_memory() {
    let held = figures(URL, "--shape held --tasks 5000 --seconds 0.5");
    assert_eq!(held["tasks"], 5000);
    let missing = [
        "rate",
        "raw_rate",
        "rate_vs_raw",
        "round_trips_per_acquire",
        "task_min",
        "task_max",
        "process_shares",
    ];
    assert_missing(&held, &missing);
    assert_within(&held, "cpu_pct", 0.0, 800.0);
    assert_within(&held, "bytes_per_lock", 1.0, 100_000.0);
}

#[test]
fn people_get_a_table() {
    let ended = polylock("bench --lock memory:// --shape hot --seconds 0.3");
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
    for text in [
        "locks a second",
        "wait, p99",
        "violations",
        "raw is",
        "tokio::sync::Mutex",
    ] {
        assert!(
            ended.stdout.contains(text),
            "{text} is missing in {}",
            ended.stdout
        );
    }
}
