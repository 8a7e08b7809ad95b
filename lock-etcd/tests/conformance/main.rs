//! The conformance cases on real clusters of one member and of three.
//!
//! They also run with holds kept by the caller, over TLS, and as a user with only the documented
//! permissions.

mod permissions;
mod store;

use std::sync::Arc;

use lock_core::{DistributedLock, Namespace};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::Case;
use lock_testkit::answered;
use store::{Clusters, EtcdStore, ONE_MEMBER};

const REACHED_BY_OTHERS: Clusters = Clusters {
    address: Some(|cluster, namespace| format!("{namespace} {}", cluster.url())),
    ..ONE_MEMBER
};

async fn connect(config: EtcdConfig, namespace: &str) -> Arc<dyn DistributedLock> {
    Arc::new(open(config, namespace).await)
}

async fn open(config: EtcdConfig, namespace: &str) -> EtcdLock {
    let namespace = Namespace::new(namespace).expect("a case's name is one");
    let config = config.with_namespace(namespace);
    answered(|| EtcdLock::connect(config.clone())).await
}

/// Connects another process to the namespace and cluster in `address`.
async fn connect_as_told(address: String) -> EtcdLock {
    let (namespace, url) = address.split_once(' ').expect("two words");
    open(EtcdConfig::new(url), namespace).await
}

lock_testkit::roles!(connect_as_told);

async fn new_store(case: Case) -> EtcdStore {
    EtcdStore::for_case(case, REACHED_BY_OTHERS, |cluster, namespace| {
        Box::pin(connect(EtcdConfig::new(cluster.url()), namespace))
    })
}

lock_testkit::conformance!(new_store);

/// The cases on clusters of three members.
mod three_members {
    use std::sync::OnceLock;

    use lock_etcd::EtcdConfig;
    use lock_testkit::Case;
    use lock_testkit::servers::{EtcdCluster, Spares};

    use crate::connect;
    use crate::store::{Clusters, EtcdStore, thaw};

    static SPARES: Spares<EtcdCluster> = Spares::new(thaw);

    const CLUSTERS: Clusters = Clusters {
        start: || EtcdCluster::start(3),
        spares: &SPARES,
        shared,
        address: None,
    };

    fn shared() -> &'static EtcdCluster {
        static SHARED: OnceLock<EtcdCluster> = OnceLock::new();

        SHARED.get_or_init(CLUSTERS.start)
    }

    async fn new_store(case: Case) -> EtcdStore {
        EtcdStore::for_case(case, CLUSTERS, |cluster, namespace| {
            Box::pin(connect(EtcdConfig::new(cluster.url()), namespace))
        })
    }

    lock_testkit::conformance!(new_store);
}

/// The cases with holds that are renewed on the runtime that acquired them.
mod kept_by_the_caller {
    use lock_core::KeeperMode;
    use lock_etcd::EtcdConfig;
    use lock_testkit::Case;

    use crate::connect;
    use crate::store::{EtcdStore, ONE_MEMBER};

    async fn new_store(case: Case) -> EtcdStore {
        EtcdStore::for_case(case, ONE_MEMBER, |cluster, namespace| {
            let config = EtcdConfig::new(cluster.url()).with_keeper(KeeperMode::Caller);
            Box::pin(connect(config, namespace))
        })
    }

    lock_testkit::conformance!(new_store);
}

/// The cases as a user with only the documented permissions.
mod limited {
    use std::collections::BTreeSet;
    use std::sync::OnceLock;

    use lock_etcd::EtcdConfig;
    use lock_testkit::servers::{EtcdCluster, Spares};
    use lock_testkit::{Case, cases};

    use crate::connect;
    use crate::permissions::create_locker;
    use crate::store::{Clusters, EtcdStore, thaw};

    static SPARES: Spares<EtcdCluster> = Spares::new(thaw);

    const CLUSTERS: Clusters = Clusters {
        start,
        spares: &SPARES,
        shared,
        address: None,
    };

    fn start() -> EtcdCluster {
        // The lowest cost of password hashes, which saves time.
        let cluster = EtcdCluster::start_with(1, &["--bcrypt-cost", "4"]);
        // Create all users before any client connects: each change of users logs all clients out.
        for group in groups() {
            create_locker(&cluster, &format!("user-of-{group}"), &format!("{group}."));
        }
        cluster.enable_authentication();
        cluster
    }

    fn shared() -> &'static EtcdCluster {
        static SHARED: OnceLock<EtcdCluster> = OnceLock::new();

        SHARED.get_or_init(start)
    }

    /// Returns the first parts of the namespaces of all cases.
    fn groups() -> BTreeSet<String> {
        let names = cases().into_iter().map(|case| case.to_string());
        let groups = names.filter_map(|name| Some(name.split_once("::")?.0.to_owned()));
        groups.collect()
    }

    async fn new_store(case: Case) -> EtcdStore {
        EtcdStore::for_case(case, CLUSTERS, |cluster, namespace| {
            let group = namespace.split('.').next().expect("a group of cases");
            let url = format!("etcd://user-of-{group}:password@{}", cluster.endpoints());
            Box::pin(async move { connect(EtcdConfig::new(url), namespace).await })
        })
    }

    lock_testkit::conformance!(new_store);
}

#[cfg(feature = "tls")]
mod tls {
    use std::sync::OnceLock;

    use lock_core::Tls;
    use lock_etcd::EtcdConfig;
    use lock_testkit::Case;
    use lock_testkit::servers::{Authority, EtcdCluster, Spares};

    use crate::connect;
    use crate::store::{Clusters, EtcdStore, thaw};

    static SPARES: Spares<EtcdCluster> = Spares::new(thaw);

    const CLUSTERS: Clusters = Clusters {
        start,
        spares: &SPARES,
        shared,
        address: None,
    };

    fn authority() -> &'static Authority {
        static AUTHORITY: OnceLock<Authority> = OnceLock::new();

        AUTHORITY.get_or_init(Authority::new)
    }

    fn start() -> EtcdCluster {
        EtcdCluster::start_with_tls::<&str>(authority(), &[])
    }

    fn shared() -> &'static EtcdCluster {
        static SHARED: OnceLock<EtcdCluster> = OnceLock::new();

        SHARED.get_or_init(start)
    }

    async fn new_store(case: Case) -> EtcdStore {
        EtcdStore::for_case(case, CLUSTERS, |cluster, namespace| {
            let tls = Tls::new().with_ca(authority().ca());
            let config = EtcdConfig::new(cluster.url()).with_tls(tls);
            Box::pin(async move { connect(config, namespace).await })
        })
    }

    lock_testkit::conformance!(new_store);
}
