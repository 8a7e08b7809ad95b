//! What an uncontended lock and release cost, against the two requests that do the least: making an
//! ephemeral sequential node below one that exists, and removing it. They are sent raw over the same
//! client library and interleaved in one process, to a server that waits for its disk, as they do by
//! default, and to one that does not, where our own work weighs most.
//!
//! `cargo bench -p lock-zookeeper --bench uncontended`; `LOCK_BENCH_ZOOKEEPER=host:2181` measures an
//! ensemble of yours instead. Every round is printed; the verdict is the median.

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
    // A container might go between two requests, when the server looks for empty ones.
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
        // Another process measures there, too.
        Ok(()) | Err(Error::NoNode | Error::NotEmpty) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
