//! An etcd cluster as a store of the conformance cases.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::blocking_claim;
use lock_core::{DistributedLock, LockKey, LockRequest, Mode};
use lock_etcd::etcd_client::{
    Client, ConnectOptions, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget,
};
use lock_testkit::servers::{EtcdCluster, EtcdMember, Spare, Spares};
use lock_testkit::{Case, Need, Store};

/// A function that connects a client to a cluster, in a namespace.
pub(crate) type Connect = for<'a> fn(&'a EtcdCluster, &'a str) -> Connecting<'a>;

type Connecting<'a> = Pin<Box<dyn Future<Output = Arc<dyn DistributedLock>> + Send + 'a>>;

#[derive(Clone, Copy)]
pub(crate) struct Clusters {
    pub(crate) start: fn() -> EtcdCluster,
    /// The clusters of cases that freeze their cluster, or kill its leader.
    pub(crate) spares: &'static Spares<EtcdCluster>,
    /// Returns the cluster of all other cases.
    pub(crate) shared: fn() -> &'static EtcdCluster,
    /// Returns the address by which another process connects to a namespace on a cluster.
    pub(crate) address: Option<fn(&EtcdCluster, &str) -> String>,
}

pub(crate) fn thaw(cluster: &EtcdCluster) {
    cluster.members().iter().for_each(EtcdMember::thaw);
}

static SPARES: Spares<EtcdCluster> = Spares::new(thaw);

pub(crate) const ONE_MEMBER: Clusters = Clusters {
    start: || EtcdCluster::start(1),
    spares: &SPARES,
    shared: EtcdCluster::shared,
    address: None,
};

/// A namespace on a cluster, which is shared unless the case freezes it or kills its leader.
pub(crate) struct EtcdStore {
    own: Option<Spare<EtcdCluster>>,
    clusters: Clusters,
    namespace: String,
    connect: Connect,
}

impl EtcdStore {
    pub(crate) fn for_case(case: Case, clusters: Clusters, connect: Connect) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);

        // The number separates runs of one case at the same time.
        let name = case.to_string().replace("::", ".");
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let alone = case.needs(Need::Freeze) || case.needs(Need::Switchover);
        Self {
            own: alone.then(|| clusters.spares.lend(clusters.start)),
            clusters,
            namespace: format!("{name}.{number}"),
            connect,
        }
    }

    fn cluster(&self) -> &EtcdCluster {
        self.own
            .as_deref()
            .unwrap_or_else(|| (self.clusters.shared)())
    }

    /// Connects a client that may read and write everything.
    async fn admin(&self) -> Client {
        let options = self
            .cluster()
            .root()
            .map(|(name, password)| ConnectOptions::new().with_user(name, password));
        let endpoints = [self.cluster().first().plain_endpoint()];
        let client = Client::connect(endpoints, options).await;
        client.expect("the cluster runs")
    }

    async fn keys(&self, prefix: &str) -> Vec<KeyValue> {
        let options = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Ascend);
        let found = self.admin().await.get(prefix, Some(options)).await;
        found.expect("the cluster runs").take_kvs()
    }

    fn queue(&self, key: &LockKey) -> String {
        format!("{}/{key}/", self.namespace)
    }
}

/// Returns the mode of a claim: the first word of its value, before the holder's metadata.
fn mode_of(claim: &KeyValue) -> Mode {
    let value = claim.value_str().expect("text");
    let mode = value.split(' ').next().unwrap_or_default();
    match mode.strip_prefix("permit:") {
        Some(of) => Mode::permit(of.parse().expect("a number")).expect("not zero"),
        None if mode == "shared" => Mode::Shared,
        None if mode == "upgradeable" => Mode::Upgradeable,
        None => Mode::Exclusive,
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        (self.connect)(self.cluster(), &self.namespace).await
    }

    fn takes_turns(&self) -> bool {
        true
    }

    async fn residue(&self) -> Vec<String> {
        let keys = self.keys(&format!("{}/", self.namespace)).await;
        let texts = keys.iter().map(|claim| claim.key_str().map(str::to_owned));
        texts.map(|text| text.expect("text")).collect()
    }

    async fn remove(&self, key: &LockKey) -> bool {
        let queue = self.queue(key);
        let mut claims = self.keys(&queue).await;
        claims.retain(|claim| !claim.key()[queue.len()..].contains(&b'/'));
        let modes: Vec<Mode> = claims.iter().map(mode_of).collect();
        let mut admin = self.admin().await;
        let mut removed = false;
        for (index, claim) in claims.iter().enumerate() {
            if blocking_claim(&modes, index).is_none() {
                let deleted = admin.delete(claim.key(), None).await;
                removed |= deleted.expect("the cluster runs").deleted() > 0;
            }
        }
        removed
    }

    async fn crash(&self, request: LockRequest) -> bool {
        let mut admin = self.admin().await;
        let ttl = i64::try_from(request.ttl().as_secs()).expect("a short ttl");
        let lease = admin
            .lease_grant(ttl, None)
            .await
            .expect("the cluster runs");
        let key = format!(
            "{}{:x}-0000000000000000000000000000dead",
            self.queue(&request.key),
            lease.id()
        );
        let value = match request.mode {
            Mode::Exclusive => String::new(),
            Mode::Shared => "shared".to_owned(),
            Mode::Upgradeable => "upgradeable".to_owned(),
            Mode::Permit { of } => format!("permit:{of}"),
            other => panic!("no crash of {other:?} is known"),
        };
        let options = PutOptions::new().with_lease(lease.id());
        admin
            .put(key, value, Some(options))
            .await
            .expect("the cluster runs");
        true
    }

    async fn freeze(&self) -> bool {
        match &self.own {
            Some(cluster) => {
                cluster.members().iter().for_each(|member| member.freeze());
                true
            }
            None => false,
        }
    }

    async fn thaw(&self) {
        if let Some(cluster) = &self.own {
            thaw(cluster);
        }
    }

    /// Restarts the leader. Other members elect another leader, and a single member keeps its data.
    async fn switch_over(&self) -> bool {
        let leader = self.own.as_ref().and_then(|cluster| cluster.leader());
        tokio::task::block_in_place(|| leader.map(EtcdMember::restart)).is_some()
    }

    fn address(&self) -> Option<String> {
        let address = self.clusters.address?;
        Some(address(self.cluster(), &self.namespace))
    }

    fn ttl(&self) -> Duration {
        // Whole seconds, and long enough for renewals on a busy machine.
        Duration::from_secs(3)
    }

    fn patience(&self) -> Duration {
        // For a cluster that serves all requests of a case on a busy machine.
        Duration::from_secs(10)
    }
}
