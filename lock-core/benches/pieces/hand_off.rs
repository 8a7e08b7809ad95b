//! The cost of a hot key that is handed from task to task.

use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use lock_core::{DistributedLock, DistributedLockExt, HandOff, MemoryLock};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) fn bench(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("hand-off, one key");
    for tasks in [2, 64, 1000] {
        let memory = Arc::new(MemoryLock::new());
        let locks = Arc::new(HandOff::new(memory, HandOff::DEFAULT_BUDGET));
        let id = BenchmarkId::new("tasks", tasks);
        group.bench_function(id, |bencher| {
            bencher
                .to_async(&runtime)
                .iter_custom(|count| crowd(locks.clone(), tasks, count));
        });
    }
}

/// Returns the time in which `tasks` tasks together take one key `count` times.
pub(crate) async fn crowd(locks: Arc<dyn DistributedLock>, tasks: u64, count: u64) -> Duration {
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let locks = Arc::clone(&locks);
        let share = count / tasks + u64::from(task < count % tasks);
        running.spawn(async move {
            for _ in 0..share {
                let guard = locks.lock("hot").await.expect("memory does not fail");
                guard.release().await.expect("it is held");
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("no task panics");
    }
    begin.elapsed()
}
