//! Counts the round trips between client and store that a lock costs.

use lock_testkit::measure::Detour;

use super::clock;
use super::store::Store;
use crate::problem::Problem;

/// The round trips for which a free lock waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeTrips {
    pub(crate) acquire: f64,
    pub(crate) release: f64,
}

/// Measures the round trips through a proxy that adds delay; `None` over TLS, where no proxy fits.
pub(crate) async fn of_free(store: &Store) -> Result<Option<FreeTrips>, Problem> {
    if store.is_memory() {
        return Ok(Some(FreeTrips {
            acquire: 0.0,
            release: 0.0,
        }));
    }
    let Some((url, detour)) = Detour::to(&store.url).await? else {
        return Ok(None);
    };
    let locks = store.at(url).connect().await?;
    let request = store.request("trips")?;
    let taken = async || {
        let guard = locks.acquire(request.clone()).await?;
        guard.ok_or_else(|| Problem::from("a wait without a limit has ended"))
    };
    let acquire = detour.round_trips(async || {
        let begin = clock::now();
        let guard = taken().await?;
        let time = clock::between(begin, clock::now());
        guard.release().await?;
        Ok::<_, Problem>(Some(time))
    });
    let acquire = acquire.await?;
    let release = detour.round_trips(async || {
        let guard = taken().await?;
        let begin = clock::now();
        guard.release().await?;
        Ok::<_, Problem>(Some(clock::between(begin, clock::now())))
    });
    let trips = acquire.zip(release.await?);
    Ok(trips.map(|(acquire, release)| FreeTrips { acquire, release }))
}
