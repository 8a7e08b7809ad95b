//! A holder, the crowd that waits for it in another process, and the cost of both for the server.

use std::time::Duration;

use polylock::backend::Clock;
use polylock::{DistributedLockExt, LockGuard, LockRequest};
use serde_json::Value;

use crate::child::{Child, LIMIT};
use crate::report::Report;
use crate::store::Crowded;
use crate::waiting::{KEY, Kind};

/// Time for which the server's requests are counted while nothing changes.
const IDLE: Duration = Duration::from_secs(4);

/// Maximum time until a crowd becomes quiet.
const SETTLING: Duration = Duration::from_secs(120);

/// Minimum number of waiters at which the memory of each can be told from all other memory.
const MANY: usize = 5_000;

/// Maximum memory of a waiter, beyond that of a task that waits for a wake-up.
const BYTES: i64 = 2_048;

/// Returns a request for a key that no other task wants.
pub(crate) fn warm_up(kind: Kind) -> LockRequest {
    let mut request = kind.request();
    let key = format!("{KEY}/warm-up/{}", std::process::id());
    request.key = polylock::LockKey::new(&key).expect("a key");
    request
}

fn size(variable: &str, default: usize) -> usize {
    std::env::var(variable)
        .ok()
        .map_or(default, |text| text.parse().expect("a number"))
}

/// Runs one process of waiters behind a holder in this process.
pub(crate) fn one_process(start: fn() -> Crowded, kind: Kind, settings: &str) {
    let many = size("LOCK_CROWD", 200);
    let store = start();
    let url = store.url_with(settings);
    let runtime = runtime();
    let Some(holder) = runtime.block_on(hold(&url, kind)) else {
        return;
    };
    let mut notified = Child::start("", kind, many);
    let floor = bytes(&notified.answer());
    let before = store.requests();
    let mut child = Child::start(&url, kind, many);
    child.answer();
    // Without hand-off each waiter polls the store from time to time, so the crowd never becomes
    // quiet.
    let may_settle = if settings.is_empty() {
        SETTLING
    } else {
        Duration::ZERO
    };
    let (settled, idle) = runtime.block_on(settle(&store, store.idle_limit, may_settle));
    let mut report = Report::new(&store, kind, settings, many);
    report.requests_to_queue = store.requests() - before;
    report.settled = settled;
    report.idle = idle;
    child.ask();
    report.bytes = (bytes(&child.answer()) - floor) / many as i64;
    let released = Clock::Boot.now();
    assert!(holder.is_held(), "the holder has lost: {report}");
    runtime
        .block_on(holder.release())
        .expect("the store answers");
    child.ask();
    let outcome = child.answer();
    report.turns = Clock::Boot.now().since(released);
    println!("{report}");
    check(&outcome, many, &report);
    if settings.is_empty() {
        // The holder's client sends requests, too.
        let limit = store.idle_limit + 5.0;
        assert!(idle <= limit, "{idle} requests a second: {report}");
        assert!(many < MANY || report.bytes <= BYTES, "{report}");
    }
}

/// Runs several processes with fifty waiters each.
pub(crate) fn many_processes(start: fn() -> Crowded) {
    const WAITERS: usize = 50;
    let processes = size("LOCK_CROWD_PROCESSES", 3);
    let store = start();
    let runtime = runtime();
    let holder = runtime.block_on(hold(&store.url, Kind::Exclusive));
    let holder = holder.expect("every store has exclusive locks");
    let start = |_| Child::start(&store.url, Kind::Exclusive, WAITERS);
    let mut children: Vec<Child> = (0..processes).map(start).collect();
    children.iter_mut().for_each(|child| drop(child.answer()));
    let quiet = store.idle_limit * processes as f64;
    let (settled, idle) = runtime.block_on(settle(&store, quiet, SETTLING));
    let mut report = Report::new(&store, Kind::Exclusive, "processes", processes * WAITERS);
    report.settled = settled;
    report.idle = idle;
    for child in &mut children {
        child.ask();
        child.answer();
    }
    let released = Clock::Boot.now();
    assert!(holder.is_held(), "the holder has lost: {report}");
    runtime
        .block_on(holder.release())
        .expect("the store answers");
    children.iter_mut().for_each(Child::ask);
    let outcomes: Vec<Value> = children.iter_mut().map(Child::answer).collect();
    report.turns = Clock::Boot.now().since(released);
    println!("{report}");
    for outcome in &outcomes {
        check(outcome, WAITERS, &report);
    }
    let limit = (store.idle_limit + 1.0) * processes as f64 + 5.0;
    assert!(idle <= limit, "{idle} requests a second: {report}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Holds the key against waiters of `kind`; `None` if the store does not support that kind.
async fn hold(url: &str, kind: Kind) -> Option<LockGuard> {
    let locks = polylock::connect(url).await.expect("the store is there");
    let can = locks.capabilities();
    match kind {
        Kind::Shared if !can.shared => None,
        Kind::Permit if !can.permits => None,
        Kind::Permit => Some(locks.permit(KEY, 1).await.expect("a free key")),
        Kind::Exclusive | Kind::Shared => Some(locks.lock(KEY).await.expect("a free key")),
    }
}

/// Waits until the server receives at most `quiet` requests a second, or until `limit`.
///
/// Returns the time that this took, and the rate at the end.
async fn settle(store: &Crowded, quiet: f64, limit: Duration) -> (Duration, f64) {
    let begun = Clock::Boot.now();
    loop {
        let (before, from) = (store.requests(), Clock::Boot.now());
        tokio::time::sleep(IDLE).await;
        let sent = store.requests() - before;
        let now = Clock::Boot.now();
        let rate = sent as f64 / now.since(from).as_secs_f64();
        if rate <= quiet || now.since(begun) > limit {
            return (from.since(begun), rate);
        }
    }
}

fn bytes(answer: &Value) -> i64 {
    answer["bytes"].as_i64().expect("a number")
}

/// Asserts that each waiter had its turn, alone, within the time limit.
fn check(outcome: &Value, many: usize, report: &Report) {
    let shown = format!("{report}: {outcome}");
    for nothing in ["lost", "failed", "unfinished", "backwards", "together"] {
        assert_eq!(
            outcome[nothing], 0,
            "{nothing} (two holders if together): {shown}"
        );
    }
    assert_eq!(outcome["granted"], many, "{shown}");
    assert!(report.turns < LIMIT, "{shown}");
}
