//! The cost of the keeper with many holds: of a further hold, and of renewing all holds.
//!
//! The store confirms every request at once, so the benchmark measures only the keeper's own work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use criterion::Criterion;
use lock_core::backend::{Clock, HoldId, Keeper, LeaseStore, Released, Renewal, async_trait};
use lock_core::{Capabilities, FencingToken, LockGuard, LockRequest, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance};

const HOLDS: u64 = 10_000;

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("keeper");
    for (name, others) in [("one more hold", 0), ("one more hold to 10,000", HOLDS)] {
        group.bench_function(name, |bencher| {
            let runtime = runtime();
            let desk = Desk::new();
            let _others = runtime.block_on(desk.take_many(others));
            bencher.to_async(&runtime).iter(|| async {
                let guard = desk.take("one more");
                guard.release().await.expect("it is held")
            });
        });
    }
    group.sample_size(20);
    group.bench_function("renewing 10,000 holds", |bencher| {
        let runtime = runtime();
        let desk = Desk::new();
        let _held = runtime.block_on(desk.take_many(HOLDS));
        bencher
            .to_async(&runtime)
            .iter_custom(|count| desk.renew_all(count));
    });
}

/// Makes a runtime whose clock is paused, so that only the benchmark advances it.
fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

/// A client that grants every take itself, without a request to a store.
struct Desk {
    keeper: Keeper,
    store: Arc<Yes>,
    grants: AtomicU64,
}

/// A store that confirms every renewal and release.
#[derive(Debug, Default)]
struct Yes {
    renewed: AtomicU64,
}

#[async_trait]
impl LeaseStore for Yes {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        self.renewed
            .fetch_add(holds.len() as u64, Ordering::Relaxed);
        let sent = Clock::Runtime.now();
        let renew = |hold: &HoldId| Renewal::Held {
            sent,
            ttl: hold.ttl(),
        };
        Ok(holds.iter().map(renew).collect())
    }

    async fn release(&self, _hold: &HoldId) -> Result<Released> {
        Ok(Released::Released)
    }
}

impl Desk {
    fn new() -> Self {
        let store = Arc::new(Yes::default());
        Self {
            keeper: Keeper::in_process(Capabilities::new("yes"), store.clone()),
            store,
            grants: AtomicU64::new(1),
        }
    }

    fn take(&self, key: &str) -> LockGuard {
        let request = LockRequest::exclusive(key).expect("a valid key");
        let mut claim = self.keeper.claim(&request).expect("a valid request");
        let sent = claim.sending();
        let grant = self.grants.fetch_add(1, Ordering::Relaxed);
        let token = FencingToken::from_grant(grant).expect("a small number");
        let granted = claim.granted(token, sent, request.ttl());
        granted.expect("no time has passed")
    }

    /// Takes `count` locks at intervals of 500 µs, so that each hold has a deadline of its own.
    async fn take_many(&self, count: u64) -> Vec<LockGuard> {
        let mut guards = Vec::new();
        for number in 0..count {
            guards.push(self.take(&number.to_string()));
            advance(Duration::from_micros(500)).await;
        }
        guards
    }

    /// Returns the time, by the machine's clock, in which every hold is renewed `count` times.
    async fn renew_all(&self, count: u64) -> Duration {
        let goal = self.store.renewed.load(Ordering::Relaxed) + count * HOLDS;
        let begin = Clock::Boot.now();
        let limit = Instant::now() + Duration::from_secs(3600) * u32::try_from(count).unwrap_or(1);
        while self.store.renewed.load(Ordering::Relaxed) < goal {
            assert!(Instant::now() < limit, "the keeper renews nothing");
            advance(Duration::from_millis(1)).await;
        }
        Clock::Boot.now().since(begin)
    }
}
