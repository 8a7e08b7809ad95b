//! What an uncontended lock and release cost on Redis, against the same two commands sent raw over
//! the same client library, interleaved in one process.
//!
//! `cargo bench --features redis --bench uncontended`; `LOCK_BENCH_REDIS=redis://...` measures
//! a server of yours instead of a private one. Every round is printed; the verdict is the median.

use std::time::Duration;

use lock_testkit::servers::RedisServer;
use polylock::redis::redis;
use polylock::{DistributedLock, DistributedLockExt};
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

const ROUNDS: usize = 5;

/// Within a round the two take turns in blocks, so that a drift of the machine hits both alike.
const BLOCKS: u32 = 80;
const BLOCK: u32 = 250;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let given = std::env::var("LOCK_BENCH_REDIS").ok();
    let server = given.is_none().then(RedisServer::start);
    let url = given
        .or(server.as_ref().map(RedisServer::url))
        .unwrap_or_default();

    let locks = polylock::connect(&url).await?;
    let raw = Raw::connect(&url).await?;
    round(&*locks, &raw).await?;

    println!(
        "lock + release against SET NX PX + scripted delete, {} a round, one task",
        BLOCKS * BLOCK
    );
    println!("round   raw p50   ours p50   ratio of p50   raw mean   ours mean   ratio of means");
    let (mut p50_ratios, mut mean_ratios) = (Vec::new(), Vec::new());
    for number in 1..=ROUNDS {
        let (raw, ours) = round(&*locks, &raw).await?;
        let (p50_ratio, mean_ratio) = (ours.p50 / raw.p50, ours.mean / raw.mean);
        println!(
            "{number:>5} {:>7.1}us {:>8.1}us {p50_ratio:>14.3} {:>8.1}us {:>9.1}us {mean_ratio:>16.3}",
            raw.p50, ours.p50, raw.mean, ours.mean
        );
        p50_ratios.push(p50_ratio);
        mean_ratios.push(mean_ratio);
    }
    println!(
        "median of {ROUNDS}: p50 {:.3} times raw, mean {:.3} times raw",
        median(p50_ratios),
        median(mean_ratios)
    );
    Ok(())
}

async fn round(locks: &dyn DistributedLock, raw: &Raw) -> Result<(Timing, Timing), Failure> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for block in 0..BLOCKS {
        if block % 2 == 0 {
            time_raw(raw, &mut theirs).await?;
            time_ours(locks, &mut ours).await?;
        } else {
            time_ours(locks, &mut ours).await?;
            time_raw(raw, &mut theirs).await?;
        }
    }
    Ok((Timing::of(theirs), Timing::of(ours)))
}

/// Microseconds.
struct Timing {
    p50: f64,
    mean: f64,
}

impl Timing {
    fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let p50 = samples.get(samples.len() / 2).copied().unwrap_or_default();
        let total: Duration = samples.iter().sum();
        Self {
            p50: p50.as_secs_f64() * 1e6,
            mean: total.as_secs_f64() * 1e6 / samples.len().max(1) as f64,
        }
    }
}

async fn time_ours(
    locks: &dyn DistributedLock,
    samples: &mut Vec<Duration>,
) -> Result<(), Failure> {
    for number in 0..BLOCK {
        let key = format!("bench/ours/{number}");
        let started = Instant::now();
        let guard = locks.lock(&key).await?;
        guard.release().await?;
        samples.push(started.elapsed());
    }
    Ok(())
}

/// `SET key owner NX PX ttl` and the scripted compare-and-delete that every careful client uses.
struct Raw {
    connection: MultiplexedConnection,
    release: redis::Script,
}

impl Raw {
    async fn connect(url: &str) -> Result<Self, Failure> {
        let client = redis::Client::open(url)?;
        let settings = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&settings)
            .await?;
        let release = redis::Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
        );
        release.prepare_invoke().load_async(&mut connection).await?;
        Ok(Self {
            connection,
            release,
        })
    }

    async fn lock_and_release(&self, key: &str, owner: &str) -> Result<(), Failure> {
        let mut connection = self.connection.clone();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(owner).arg("NX").arg("PX").arg(30_000);
        let taken: Option<String> = set.query_async(&mut connection).await?;
        let released: i64 = self
            .release
            .key(key)
            .arg(owner)
            .invoke_async(&mut connection)
            .await?;
        if taken.is_none() || released != 1 {
            return Err("the raw lock was not free".into());
        }
        Ok(())
    }
}

async fn time_raw(raw: &Raw, samples: &mut Vec<Duration>) -> Result<(), Failure> {
    for number in 0..BLOCK {
        let key = format!("bench/raw/{number}");
        let owner = format!("{number:032x}");
        let started = Instant::now();
        raw.lock_and_release(&key, &owner).await?;
        samples.push(started.elapsed());
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
