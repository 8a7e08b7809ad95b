//! The program as a script calls it.

use std::process::{Command, Stdio};

use serde_json::Value;

/// The fields of the JSON object, in their order.
const FIELDS: [&str; 20] = [
    "store",
    "shape",
    "tasks",
    "processes",
    "rate",
    "p50_us",
    "p90_us",
    "p99_us",
    "max_us",
    "violations",
    "round_trips_per_acquire",
    "task_min",
    "task_max",
    "process_shares",
    "raw_rate",
    "raw_p50_us",
    "rate_vs_raw",
    "p50_vs_raw",
    "cpu_pct",
    "bytes_per_lock",
];

/// The fields that are integers or null.
const WHOLE: [&str; 11] = [
    "tasks",
    "processes",
    "p50_us",
    "p90_us",
    "p99_us",
    "max_us",
    "violations",
    "task_min",
    "task_max",
    "raw_p50_us",
    "bytes_per_lock",
];

/// The exit code and output of a call.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Calls the program with `arguments`, separated by blanks.
pub(crate) fn polylock(arguments: &str) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_polylock"))
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ended {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs a bench that has to succeed; returns its figures.
pub(crate) fn figures(url: &str, arguments: &str) -> Value {
    let ended = polylock(&format!("bench --json --lock {url} {arguments}"));
    assert_eq!(ended.code, Some(0), "{arguments}: {ended:?}");
    assert_eq!(ended.stderr, "", "{arguments}");
    let figures = parsed(&ended);
    lock_testkit::assert_excluded!(figures["violations"] == 0, "{figures}");
    figures
}

/// Parses the one object on stdout; asserts that it has exactly the known fields.
pub(crate) fn parsed(ended: &Ended) -> Value {
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "{ended:?}");
    let figures: Value = serde_json::from_str(lines[0]).expect("a JSON object");
    let names = figures.as_object().expect("an object").keys();
    let (mut names, mut expected): (Vec<&str>, Vec<&str>) =
        (names.map(String::as_str).collect(), FIELDS.to_vec());
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    for name in WHOLE {
        let value = &figures[name];
        assert!(value.is_u64() || value.is_null(), "{name}: {value}");
    }
    figures
}

/// Asserts that exactly these fields are null.
pub(crate) fn assert_missing(figures: &Value, missing: &[&str]) {
    let null = FIELDS.iter().filter(|name| figures[**name].is_null());
    let (mut null, mut missing): (Vec<&str>, Vec<&str>) = (null.copied().collect(), missing.into());
    null.sort_unstable();
    missing.sort_unstable();
    assert_eq!(null, missing, "{figures}");
}

/// Asserts that `name` is a number from `low` to `high`.
pub(crate) fn assert_within(figures: &Value, name: &str, low: f64, high: f64) {
    let value = figures[name].as_f64();
    let is_within = value.is_some_and(|value| (low..=high).contains(&value));
    assert!(is_within, "{name} of {figures}");
}
