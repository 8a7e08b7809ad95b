//! The conformance cases on real servers.
//!
//! They run with the default settings, with holds kept by the caller, over TLS, and as a user with
//! only the documented permissions.

mod permissions;
mod store;

use std::sync::Arc;

use lock_core::{DistributedLock, Namespace};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::Case;
use lock_testkit::answered;
use store::{PLAIN, RedisStore, Servers};

const REACHED_BY_OTHERS: Servers = Servers {
    address: Some(|server, namespace| format!("{namespace} {}", server.url())),
    ..PLAIN
};

async fn connect(config: RedisConfig, namespace: &str) -> Arc<dyn DistributedLock> {
    Arc::new(open(config, namespace).await)
}

async fn open(config: RedisConfig, namespace: &str) -> RedisLock {
    let namespace = Namespace::new(namespace).expect("a case's name is one");
    let config = config.with_namespace(namespace);
    answered(|| RedisLock::connect(config.clone())).await
}

/// Connects another process to the namespace and server in `address`.
async fn connect_as_told(address: String) -> RedisLock {
    let (namespace, url) = address.split_once(' ').expect("two words");
    open(RedisConfig::new(url), namespace).await
}

lock_testkit::roles!(connect_as_told);

async fn new_store(case: Case) -> RedisStore {
    RedisStore::for_case(case, REACHED_BY_OTHERS, |server, namespace| {
        Box::pin(connect(RedisConfig::new(server.url()), namespace))
    })
}

lock_testkit::conformance!(new_store);

/// The cases with holds that are renewed on the runtime that acquired them.
mod kept_by_the_caller {
    use lock_core::KeeperMode;
    use lock_redis::RedisConfig;
    use lock_testkit::Case;

    use crate::connect;
    use crate::store::{PLAIN, RedisStore};

    async fn new_store(case: Case) -> RedisStore {
        RedisStore::for_case(case, PLAIN, |server, namespace| {
            let config = RedisConfig::new(server.url()).with_keeper(KeeperMode::Caller);
            Box::pin(connect(config, namespace))
        })
    }

    lock_testkit::conformance!(new_store);
}

mod limited {
    use std::sync::OnceLock;

    use lock_redis::RedisConfig;
    use lock_testkit::Case;
    use lock_testkit::servers::RedisServer;

    use crate::connect;
    use crate::permissions::create_locker;
    use crate::store::{PLAIN, RedisStore, Servers};

    const SERVERS: Servers = Servers {
        shared,
        keeps_users: false,
        ..PLAIN
    };

    /// Returns a second shared server, since other cases use the same namespaces on the first.
    fn shared() -> &'static RedisServer {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();

        SHARED.get_or_init(RedisServer::start)
    }

    async fn new_store(case: Case) -> RedisStore {
        RedisStore::for_case(case, SERVERS, |server, namespace| {
            let user = format!("user-of-{}", namespace.replace(':', "-"));
            create_locker(server, &user, namespace);
            let url = format!("redis://{user}:password@127.0.0.1:{}", server.port());
            Box::pin(async move { connect(RedisConfig::new(url), namespace).await })
        })
    }

    lock_testkit::conformance!(new_store);
}

#[cfg(feature = "tls")]
mod tls {
    use std::sync::OnceLock;

    use lock_core::Tls;
    use lock_redis::RedisConfig;
    use lock_testkit::Case;
    use lock_testkit::servers::{Authority, RedisServer};

    use crate::connect;
    use crate::store::{PLAIN, RedisStore, Servers};

    const SERVERS: Servers = Servers {
        start,
        shared,
        ..PLAIN
    };

    fn authority() -> &'static Authority {
        static AUTHORITY: OnceLock<Authority> = OnceLock::new();

        AUTHORITY.get_or_init(Authority::new)
    }

    fn start(arguments: &[&str]) -> RedisServer {
        RedisServer::start_with_tls(authority(), arguments)
    }

    fn shared() -> &'static RedisServer {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();

        SHARED.get_or_init(|| start(&[]))
    }

    async fn new_store(case: Case) -> RedisStore {
        RedisStore::for_case(case, SERVERS, |server, namespace| {
            let url = server.tls_url().expect("it was started with TLS");
            let config = RedisConfig::new(url).with_tls(Tls::new().with_ca(authority().ca()));
            Box::pin(async move { connect(config, namespace).await })
        })
    }

    lock_testkit::conformance!(new_store);
}
