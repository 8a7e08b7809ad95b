//! Measures the round trips to its store that a lock waits for.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::measure::Detour;
use polylock::{Config, DistributedLock, LockGuard};
use tokio::time::Instant;

use crate::figures::RoundTrips;
use crate::protocol::Wanted;
use crate::stage::problem::Problem;

/// Measures the round trips of a free lock through a proxy that adds delay.
pub(crate) async fn measure(lock: &Wanted, in_processes: bool) -> Result<RoundTrips, Problem> {
    if !in_processes {
        return Ok(RoundTrips {
            take: Some(0.0),
            release: Some(0.0),
        });
    }
    let Some((url, detour)) = Detour::to(&lock.url).await? else {
        return Ok(RoundTrips {
            take: None,
            release: None,
        });
    };
    let locks = polylock::connect(Config::new(url)).await?;
    let take = detour.round_trips(async || {
        let timed = timed_take(&locks, lock).await?;
        let Some((guard, time)) = timed else {
            return Ok::<_, Problem>(None);
        };
        guard.release().await?;
        Ok(Some(time))
    });
    let take = take.await?;
    let release = detour.round_trips(async || {
        let Some((guard, _)) = timed_take(&locks, lock).await? else {
            return Ok::<_, Problem>(None);
        };
        let begin = Instant::now();
        guard.release().await?;
        Ok(Some(begin.elapsed()))
    });
    Ok(RoundTrips {
        take,
        release: release.await?,
    })
}

async fn timed_take(
    locks: &Arc<dyn DistributedLock>,
    lock: &Wanted,
) -> Result<Option<(LockGuard, Duration)>, Problem> {
    let begin = Instant::now();
    let guard = locks.acquire(lock.request()?.without_waiting()).await?;
    Ok(guard.map(|guard| (guard, begin.elapsed())))
}
