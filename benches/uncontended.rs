//! The cost of an uncontended lock and release on Redis, compared with the same two raw commands.
//!
//! Both versions use the same client library and take turns in one process. The benchmark prints
//! every round; its result is the median.
//!
//! `cargo bench --features redis --bench uncontended` starts a private server, unless
//! `LOCK_BENCH_REDIS=redis://...` names another server.

use lock_testkit::Comparison;
use lock_testkit::servers::RedisServer;
use polylock::DistributedLockExt;
use polylock::redis::redis;
use redis::aio::MultiplexedConnection;

const BLOCK: usize = 250;
const BLOCKS: usize = 80;

/// An owner of the same length as a claim id of polylock.
const OWNER: &str = "0123456789abcdef0123456789abcdef";

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
    let keys = |whose: &str| -> Vec<String> {
        let numbers = 0..BLOCK;
        numbers
            .map(|number| format!("bench/{whose}/{number}"))
            .collect()
    };
    let (raw_keys, our_keys) = (keys("raw"), keys("ours"));
    let lock_raw = async |number: usize| raw.lock_and_release(&raw_keys[number], OWNER).await;
    let lock_ours = async |number: usize| {
        locks.lock(&our_keys[number]).await?.release().await?;
        Ok(())
    };
    Comparison::new(BLOCK)
        .with_blocks(BLOCKS)
        .run(
            "lock + release against SET NX PX + scripted delete",
            lock_raw,
            lock_ours,
        )
        .await?;
    Ok(())
}

/// The raw commands: `SET key owner NX PX ttl`, and a scripted compare-and-delete.
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
