//! Measures the round trips to the lock store that an uncontended refund waits for.

use std::time::Duration;

use lock_testkit::measure::Detour;
use tokio::time::Instant;

use crate::refund::locks::Locks;
use crate::refund::mechanism::Mechanism;
use crate::refund::protocol::Job;
use crate::refund::requests::Refund;
use crate::stage::problem::Problem;

const REFUND: Refund = Refund {
    id: 0,
    trade: 0,
    bank: 0,
};

/// Returns the round trips for take and release; `None` where no proxy fits before the store.
pub(crate) async fn round_trips(job: &Job) -> Result<Option<f64>, Problem> {
    if job.mechanism == Mechanism::None || !job.store.is_shared_by_processes()? {
        return Ok(Some(0.0));
    }
    let mut config = job.store.configuration()?;
    let Some((url, detour)) = Detour::to(&config.url).await? else {
        return Ok(None);
    };
    config.url = url;
    let locks = Locks::over(config, job).await?;
    detour.round_trips(async || one_time(&locks).await).await
}

/// Takes and releases once; `None` if the lock was refused, as when the last release was late.
async fn one_time(locks: &Locks) -> Result<Option<Duration>, Problem> {
    let begin = Instant::now();
    let Some(protection) = locks.protect(&REFUND).await? else {
        return Ok(None);
    };
    protection.end().await;
    Ok(Some(begin.elapsed()))
}
