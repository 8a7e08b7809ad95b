//! Measures free locks: the cost that every lock has, and for most locks the only one.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::measure::Stopwatch;
use polylock::{DistributedLock, DistributedLockExt, LockGuard};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::figures::{Free, Times};
use crate::plan::TASKS_TOGETHER;
use crate::stage::problem::Problem;

/// Number of keys in rotation. Why: a service does not lock the same key again and again.
const KEYS: usize = 64;

/// Measures one task and then several tasks, each for `lasting`.
pub(crate) async fn measure(
    locks: &Arc<dyn DistributedLock>,
    prefix: &str,
    lasting: Duration,
) -> Result<Free, Problem> {
    let (mut take, mut release) = (Stopwatch::new(), Stopwatch::new());
    let keys = keys(prefix, 0);
    // The first takes open connections, load scripts and insert rows.
    for key in &keys {
        taken(locks, key).await?.release().await?;
    }
    let begin = Instant::now();
    let mut rotation = keys.iter().cycle();
    while begin.elapsed() < lasting {
        let key = rotation.next().ok_or("no key")?;
        let asked = Instant::now();
        let guard = taken(locks, key).await?;
        let had = Instant::now();
        guard.release().await?;
        take.note(had - asked);
        release.note(had.elapsed());
    }
    let per_s = take.count() as f64 / begin.elapsed().as_secs_f64();
    let (together_n, together_per_s) = together(locks, prefix, lasting).await?;
    Ok(Free {
        take: Times::of(&take),
        release: Times::of(&release),
        per_s,
        together_per_s,
        together_n,
    })
}

/// Returns how many locks several tasks took and released, in total and per second.
async fn together(
    locks: &Arc<dyn DistributedLock>,
    prefix: &str,
    lasting: Duration,
) -> Result<(u64, f64), Problem> {
    let mut tasks: JoinSet<Result<u64, Problem>> = JoinSet::new();
    let mut begun = Vec::new();
    for task in 1..=TASKS_TOGETHER {
        let (locks, keys) = (Arc::clone(locks), keys(prefix, task));
        for key in &keys {
            taken(&locks, key).await?.release().await?;
        }
        begun.push((locks, keys));
    }
    let begin = Instant::now();
    for (locks, keys) in begun {
        tasks.spawn(async move {
            let mut count = 0;
            for key in keys.iter().cycle() {
                if begin.elapsed() >= lasting {
                    break;
                }
                taken(&locks, key).await?.release().await?;
                count += 1;
            }
            Ok(count)
        });
    }
    let mut count = 0;
    while let Some(counted) = tasks.join_next().await {
        count += counted??;
    }
    Ok((count, count as f64 / begin.elapsed().as_secs_f64()))
}

async fn taken(locks: &Arc<dyn DistributedLock>, key: &str) -> Result<LockGuard, Problem> {
    let taken = locks.try_lock(key).await?;
    taken.ok_or_else(|| format!("somebody has {key}, which nobody else should want").into())
}

fn keys(prefix: &str, task: u32) -> Vec<String> {
    (0..KEYS)
        .map(|number| format!("{prefix}/free/{task}/{number}"))
        .collect()
}
