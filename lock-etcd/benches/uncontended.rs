//! The cost of an uncontended lock and release on etcd, compared with the cheapest raw requests.
//!
//! The raw requests are a transaction that puts an absent key under a lease, and a delete. Both
//! versions use the same client library and take turns in one process. The benchmark prints every
//! round; its result is the median.
//!
//! `cargo bench -p lock-etcd --bench uncontended` starts a private server, unless
//! `LOCK_BENCH_ETCD=127.0.0.1:2379` names another server.

use lock_core::DistributedLockExt;
use lock_etcd::etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::Comparison;
use lock_testkit::servers::EtcdCluster;

const BLOCK: usize = 50;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let given = std::env::var("LOCK_BENCH_ETCD").ok();
    let server = given.is_none().then(|| EtcdCluster::start(1));
    let endpoint = given
        .or(server.as_ref().map(EtcdCluster::endpoints))
        .unwrap_or_default();
    let locks = EtcdLock::connect(EtcdConfig::new(format!("etcd://{endpoint}"))).await?;
    let mut raw = Raw::connect(&endpoint).await?;
    let keys: Vec<_> = (0..BLOCK).map(|number| format!("bench/{number}")).collect();
    let lock_raw = async |number: usize| raw.lock_and_release(&keys[number]).await;
    let lock_ours = async |number: usize| {
        locks.lock(&keys[number]).await?.release().await?;
        Ok(())
    };
    Comparison::new(BLOCK)
        .run("lock + release", lock_raw, lock_ours)
        .await?;
    Ok(())
}

/// The cheapest raw requests that take and free a key.
struct Raw {
    client: Client,
    lease: i64,
}

impl Raw {
    async fn connect(endpoint: &str) -> Result<Self, Failure> {
        let mut client = Client::connect([endpoint], None).await?;
        // The ttl is longer than the benchmark, so the lease needs no keep-alive.
        let lease = client.lease_grant(3600, None).await?.id();
        Ok(Self { client, lease })
    }

    async fn lock_and_release(&mut self, key: &str) -> Result<(), Failure> {
        let options = PutOptions::new().with_lease(self.lease);
        let take = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key, "raw", Some(options))]);
        let taken = self.client.txn(take).await?.succeeded();
        let released = self.client.delete(key, None).await?.deleted();
        if (taken, released) != (true, 1) {
            return Err("the raw lock was not free".into());
        }
        Ok(())
    }
}
