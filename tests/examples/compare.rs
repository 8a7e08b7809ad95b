//! The comparison measures all its figures, and its page needs no other files.

use std::fs;
use std::path::Path;

use lock_testkit::steady;
use serde_json::Value;

use crate::example;

/// Measures the stores at `urls` quickly; writes the page and its picture to `directory`.
fn compare(urls: &[&str], directory: &Path) -> (Value, String, String) {
    let [page, picture] = ["page.html", "picture.svg"].map(|name| directory.join(name));
    let [page_path, picture_path] = [&page, &picture].map(|file| file.to_str().expect("text"));
    let mut arguments = vec!["--quick", "--json", "--html", page_path];
    arguments.extend(["--picture", picture_path]);
    for url in urls {
        arguments.extend(["--lock", url]);
    }
    let output = example::run("compare", &arguments);
    assert!(output.status.success(), "{output:?}");
    let report = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    let read = |file| fs::read_to_string(file).expect("it was written");
    (report, read(&page), read(&picture))
}

fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path);
    let number = found.and_then(Value::as_f64);
    number.unwrap_or_else(|| panic!("no number at {path}: {value}"))
}

/// Asserts the bounds that hold for every store, however slow the machine is.
fn assert_was_measured(store: &Value) {
    for times in [
        "/free/take",
        "/free/release",
        "/hot/wait",
        "/hot_through_store/wait",
    ] {
        assert!(number(store, &format!("{times}/n")) > 10.0, "{store}");
        let [p50, p99, max] =
            ["p50_ms", "p99_ms", "max_ms"].map(|one| number(store, &format!("{times}/{one}")));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{store}");
    }
    let fairness = number(store, "/hot_through_store/fairness");
    assert!((0.33..=1.001).contains(&fairness), "{store}");
    let blocked = store["recovery"]["blocked_ms"].as_array().expect("a list");
    assert_eq!(blocked.len(), 3, "{store}");
    for path in ["/coupons/clean", "/refunds/0/clean"] {
        assert_eq!(store.pointer(path), Some(&Value::Bool(true)), "{store}");
    }
}

const CHARTS: [&str; 7] = [
    "Taking a free lock",
    "Free locks taken each second",
    "Round trips of a free lock",
    "A hot lock taken each second",
    "Waiting for a hot lock",
    "Fairness between processes",
    "After the holder was killed",
];

fn assert_stands_alone(page: &str) {
    // The only address is the XML namespace of the charts.
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    for loading in ["http:", "https:", "src=", "href=", "url(", "@import"] {
        assert!(!addresses.contains(loading), "{loading} in {page}");
    }
}

#[test]
fn memory_is_measured_and_the_page_stands_alone() {
    steady(async || {
        let directory = tempfile::tempdir().expect("a place for the page");
        let (report, page, picture) = compare(&["memory://"], directory.path());
        let store = &report["stores"][0];
        assert_was_measured(store);
        assert_eq!(store["refunds"][1]["name"], "queue");
        assert!(store["server"].is_null());
        // A dead holder blocks for the rest of its ttl.
        let blocked = number(store, "/recovery/blocked_ms/0");
        assert!((1_000.0..4_000.0).contains(&blocked), "{store}");
        assert_stands_alone(&page);
        let axes = [
            "milliseconds",
            "each second",
            "seconds until",
            "round trips",
            "locks measured",
        ];
        for said in axes {
            assert!(page.contains(said), "{said}: {page}");
        }
        assert!(picture.starts_with("<svg"), "{picture}");
        for title in CHARTS {
            let drawn = page.matches(&format!("\n{title}\n")).count();
            assert_eq!(drawn, 1, "{title}: {page}");
        }
        let picked = CHARTS.iter().filter(|title| picture.contains(**title));
        assert_eq!(picked.count(), 4, "{picture}");
    });
}

#[cfg(feature = "redis")]
#[test]
fn a_server_is_compared_with_memory_and_a_newcomer_is_advised() {
    steady(async || {
        let server = lock_testkit::servers::RedisServer::start();
        let directory = tempfile::tempdir().expect("a place for the page");
        let urls = ["memory://", &server.url()];
        let (report, page, _) = compare(&urls, directory.path());
        let stores = report["stores"].as_array().expect("a list");
        let names: Vec<&Value> = stores.iter().map(|store| &store["name"]).collect();
        assert_eq!(names, ["memory", "redis"]);
        stores.iter().for_each(assert_was_measured);
        for path in ["/round_trips/take", "/round_trips/release"] {
            let trips = number(&stores[1], path);
            assert!((0.7..2.5).contains(&trips), "{path}: {report}");
        }
        let advice = "For a hot coupon</h3><p class=\"answer\">redis</p>";
        assert!(page.contains(advice), "{page}");
    });
}

#[test]
fn what_cannot_be_written_is_told_before_anything_is_measured() {
    let output = example::run("compare", &["--html", "/nowhere/page.html"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.starts_with("compare: /nowhere/page.html"),
        "{message}"
    );
}

#[test]
fn a_store_that_cannot_be_had_is_an_error_with_status_1() {
    example::assert_misses_its_store("compare");
    example::assert_refuses("compare", &["--quickly"]);
}
