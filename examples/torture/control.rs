//! Shows the use of fencing tokens: holders are stopped during an update, and wake up too late.

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::arguments::Arguments;
use crate::bag::draws;
use crate::protocol::Work;
use crate::registers::Updates;
use crate::run::Site;
use crate::stage::problem::Problem;
use crate::stage::run_instances;
use crate::worker::Worker;

/// The least ttl; a store may have a longer minimum.
const TTL: Duration = Duration::from_millis(500);

/// Minimum numbers of updates, and of stops of a holder.
const UPDATES: u64 = 1000;
const STOPS: u32 = 12;

/// Time limit, far more than any store takes.
const LIMIT: Duration = Duration::from_secs(180);

/// The outcome of the updates.
#[derive(Debug, Serialize)]
pub(crate) struct Control {
    pub(crate) stops: u32,
    /// Updates of a register that does not check tokens.
    pub(crate) plain: Updates,
    /// Updates of a register that refuses a holder with an outdated token.
    pub(crate) fenced: Updates,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<Control, Problem> {
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 53));
    let site = Site::new(arguments, seed, Work::Careless, TTL).await?;
    let running = run_instances::<Worker>(
        arguments.processes,
        site.are_processes,
        site.headquarters.clone(),
    );
    let mut running = std::pin::pin!(running);
    let stops = tokio::select! {
        ended = &mut running => {
            ended?;
            return Err("all workers have ended before their time".into());
        }
        stops = stop_holders(&site, arguments.processes, seed) => stops?,
    };
    site.headquarters.end();
    let ended = tokio::time::timeout(LIMIT, running).await;
    ended.map_err(|_| "some workers did not come to an end in time")??;
    let (plain, fenced) = site.headquarters.updates();
    Ok(Control {
        stops,
        plain,
        fenced,
    })
}

async fn stop_holders(site: &Site, workers: u32, seed: u64) -> Result<u32, Problem> {
    let mut rng = draws(seed, "control");
    let end = Instant::now() + LIMIT;
    let mut stops = 0;
    loop {
        let (_, fenced) = site.headquarters.updates();
        if fenced.updates >= UPDATES && stops >= STOPS {
            return Ok(stops);
        }
        if end < Instant::now() {
            let updates = fenced.updates;
            return Err(format!("only {updates} updates came about in {LIMIT:?}").into());
        }
        let stopped = site
            .headquarters
            .workers
            .stop(rng.u32(0..workers), 2 * site.ttl);
        stops += u32::from(stopped.await?);
        sleep(site.ttl.mul_f64(0.3 * rng.f64())).await;
    }
}
