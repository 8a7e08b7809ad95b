//! The cost of an uncontended lock and release, compared with the cheapest raw requests.
//!
//! The raw requests create an ephemeral sequential node below an existing node, and remove it. Both
//! versions use the same client library and take turns in one process. The benchmark prints every
//! round; its result is the median.
//!
//! The first private server waits for its disk, which is the default. The second does not, so the
//! client's own work has the greatest share of the time.
//!
//! `cargo bench -p lock-zookeeper --bench uncontended` starts both private servers, unless
//! `LOCK_BENCH_ZOOKEEPER=host:2181` names an ensemble.

use lock_core::{DistributedLockExt, Namespace};
use lock_testkit::Comparison;
use lock_testkit::servers::ZooKeeperServer;
use lock_zookeeper::zookeeper_client::{Acls, Client, CreateMode, Error};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

const BLOCK: usize = 100;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    if let Ok(address) = std::env::var("LOCK_BENCH_ZOOKEEPER") {
        return compare("an ensemble of yours", &address).await;
    }
    for line in ["forceSync=yes", "forceSync=no"] {
        let server = ZooKeeperServer::start_to_measure(&[line]);
        compare(line, &server.address()).await?;
    }
    Ok(())
}

async fn compare(title: &str, address: &str) -> Result<(), Failure> {
    let namespace = Namespace::new("bench")?;
    let config = ZooKeeperConfig::new(address).with_namespace(namespace);
    let locks = ZooKeeperLock::connect(config).await?;
    let raw = Client::connect(address).await?;
    // Not containers: the server might remove an empty container between two requests.
    let parent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    raw.mkdir("/raw", &parent).await?;
    let keys: Vec<_> = (0..BLOCK).map(|number| format!("{number}")).collect();
    for key in &keys {
        raw.mkdir(&format!("/raw/{key}"), &parent).await?;
    }
    let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let lock_raw = async |number: usize| {
        let start = format!("/raw/{}/lock-", keys[number]);
        let (_, sequence) = raw.create(&start, &[], &ephemeral).await?;
        raw.delete(&format!("{start}{sequence}"), None).await?;
        Ok::<(), Failure>(())
    };
    let lock_ours = async |number: usize| {
        locks.lock(&keys[number]).await?.release().await?;
        Ok(())
    };
    Comparison::new(BLOCK)
        .run(title, lock_raw, lock_ours)
        .await?;
    for key in &keys {
        raw.delete(&format!("/raw/{key}"), None).await?;
    }
    match raw.delete("/raw", None).await {
        // Another process may run this benchmark on the same ensemble.
        Ok(()) | Err(Error::NoNode | Error::NotEmpty) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
