//! The cost of the memory backend: a free lock, and a key with many waiting tasks.

use std::sync::Arc;

use criterion::Criterion;
use lock_core::{DistributedLock, DistributedLockExt, MemoryLock};
use tokio::runtime::Runtime;

use crate::hand_off::crowd;

pub(crate) fn bench(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let locks = MemoryLock::new();
    let mut group = criterion.benchmark_group("memory");
    group.bench_function("free lock", |bencher| {
        bencher.to_async(&runtime).iter(|| async {
            let guard = locks.lock("free").await.expect("memory does not fail");
            guard.release().await.expect("it is held")
        });
    });
    group.bench_function("one key, 64 tasks", |bencher| {
        let locks: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
        bencher
            .to_async(&runtime)
            .iter_custom(|count| crowd(Arc::clone(&locks), 64, count));
    });
}
