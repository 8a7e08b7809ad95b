//! What an uncontended lock and release cost on Redis, against the same two commands sent raw over
//! the same client library, interleaved in one process.
//!
//! `cargo bench --features redis --bench uncontended`; `POLYLOCK_BENCH_REDIS=redis://...` measures
//! a server of yours instead of a private one. Every round is printed; the verdict is the median.

use std::time::Duration;

use lock_testkit::servers::RedisServer;
use polylock::redis::redis;
use polylock::{DistributedLock, DistributedLockExt};
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

const ROUNDS: usize = 5;
const OPERATIONS: u32 = 20_000;
const WARM_UP: u32 = 2_000;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let given = std::env::var("POLYLOCK_BENCH_REDIS").ok();
    let server = if given.is_none() {
        Some(RedisServer::start()?)
    } else {
        None
    };
    let url = given
        .or(server.as_ref().map(RedisServer::url))
        .unwrap_or_default();

    let locks = polylock::connect(&url).await?;
    let raw = Raw::connect(&url).await?;
    time_ours(&*locks, WARM_UP).await?;
    time_raw(&raw, WARM_UP).await?;

    println!("lock + release, {OPERATIONS} a round, one task, {url}");
    println!("round   raw p50   ours p50   ratio of p50   raw mean   ours mean   ratio of means");
    let mut ratios = Vec::new();
    let mut p50_ratios = Vec::new();
    for round in 1..=ROUNDS {
        // Which one goes first alternates, so that a drift of the machine hits both.
        let (raw, ours) = if round % 2 == 1 {
            let raw = time_raw(&raw, OPERATIONS).await?;
            (raw, time_ours(&*locks, OPERATIONS).await?)
        } else {
            let ours = time_ours(&*locks, OPERATIONS).await?;
            (time_raw(&raw, OPERATIONS).await?, ours)
        };
        let (p50_ratio, ratio) = (ours.p50 / raw.p50, ours.mean / raw.mean);
        println!(
            "{round:>5} {:>7.1}us {:>8.1}us {p50_ratio:>14.3} {:>8.1}us {:>9.1}us {ratio:>16.3}",
            raw.p50, ours.p50, raw.mean, ours.mean
        );
        ratios.push(ratio);
        p50_ratios.push(p50_ratio);
    }
    println!(
        "median of {ROUNDS}: p50 {:.3} times raw, mean {:.3} times raw",
        median(p50_ratios),
        median(ratios)
    );
    Ok(())
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

async fn time_ours(locks: &dyn DistributedLock, operations: u32) -> Result<Timing, Failure> {
    let mut samples = Vec::with_capacity(operations as usize);
    for number in 0..operations {
        let key = format!("bench/ours/{}", number % 1000);
        let started = Instant::now();
        let guard = locks.lock(&key).await?;
        guard.release().await?;
        samples.push(started.elapsed());
    }
    Ok(Timing::of(samples))
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

async fn time_raw(raw: &Raw, operations: u32) -> Result<Timing, Failure> {
    let mut samples = Vec::with_capacity(operations as usize);
    for number in 0..operations {
        let key = format!("bench/raw/{}", number % 1000);
        let owner = format!("{number:032x}");
        let started = Instant::now();
        raw.lock_and_release(&key, &owner).await?;
        samples.push(started.elapsed());
    }
    Ok(Timing::of(samples))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
