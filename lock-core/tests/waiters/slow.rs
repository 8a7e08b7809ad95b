//! Log lines about long waits.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{LONG, Plain};
use lock_core::{DistributedLock, DistributedLockExt, HandOff, LockRequest, MemoryLock};
use lock_testkit::steady;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A subscriber that keeps the warnings of this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct LocalQueue(String);

impl Visit for LocalQueue {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = LocalQueue(String::new());
        event.record(&mut line);
        self.0.lock().expect("no test panics with it").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_wait_behind_a_guard_of_its_own_client_is_told_of_once_after_five_seconds() {
    let log = Log::default();
    // Global, since the keeper thread logs the waits.
    tracing::subscriber::set_global_default(log.clone()).expect("the only one");
    let about = |key: &str| {
        let lines = log.0.lock().expect("no test panics with it");
        let about: Vec<_> = lines
            .iter()
            .filter(|line| line.contains(key))
            .cloned()
            .collect();
        about
    };
    steady(async || {
        let plain = Plain::new();
        let bare: Arc<dyn DistributedLock> = Arc::new(plain.new_client());
        let handed: Arc<dyn DistributedLock> = Arc::new(plain.handed_on());
        let number = fastrand();
        let mut waiting = JoinSet::new();
        let mut held = Vec::new();
        for (locks, name) in [(&bare, "bare"), (&handed, "handed"), (&handed, "foreign")] {
            let key = format!("{name}/{number}");
            let holder = if name == "foreign" { &bare } else { locks };
            held.push(holder.lock(&key).await.unwrap());
            for _ in 0..3 {
                let locks = Arc::clone(locks);
                let request = LockRequest::exclusive(&key).unwrap();
                waiting.spawn(async move { locks.acquire(request).await });
            }
        }
        // The only waiter of its client, behind a reader of the same client.
        let upgraded = format!("upgraded/{number}");
        let memory: Arc<dyn DistributedLock> = Arc::new(HandOff::new(
            Arc::new(MemoryLock::new()),
            HandOff::DEFAULT_BUDGET,
        ));
        held.push(memory.lock_shared(&upgraded).await.unwrap());
        let (locks, request) = (
            Arc::clone(&memory),
            LockRequest::exclusive(&upgraded).unwrap(),
        );
        waiting.spawn(async move { locks.acquire(request).await });
        let begin = Instant::now();
        while about(&upgraded).is_empty()
            || about("guard of this client").is_empty()
            || about(&format!("bare/{number}")).is_empty()
            || about(&format!("handed/{number}")).is_empty()
        {
            assert!(begin.elapsed() < LONG, "not told");
            sleep(Duration::from_millis(50)).await;
        }
        for name in ["bare", "handed", "upgraded"] {
            let lines = about(&format!("{name}/{number}"));
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].contains("guard of this client"), "{lines:?}");
        }
        let lines = about(&format!("foreign/{number}"));
        assert!(lines.is_empty(), "{lines:?}");
        drop(held);
        while let Some(served) = waiting.join_next().await {
            drop(served.unwrap().unwrap());
        }
    });
}

/// Returns a number that differs between runs.
fn fastrand() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
