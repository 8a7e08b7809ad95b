//! The floor on etcd: a transaction that puts a key under a kept lease if it is absent, and a
//! delete.

use std::time::Duration;

use polylock::etcd::etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, PutOptions, Txn, TxnOp,
};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::was_not_free;
use crate::bench::store::Location;
use crate::problem::Problem;

/// The ttl of the lease, in seconds.
const TTL: i64 = 30;

pub(crate) struct Floor {
    client: Client,
    lease: i64,
    prefix: String,
    _keeping: JoinSet<()>,
}

pub(crate) struct RawLock {
    client: Client,
    lease: i64,
    key: String,
}

impl Floor {
    pub(super) async fn open(location: &Location) -> Result<Self, Problem> {
        let mut options = ConnectOptions::new();
        if let Some((name, password)) = &location.user {
            options = options.with_user(name, password);
        }
        let mut client = Client::connect(location.addresses(2379), Some(options)).await?;
        let lease = client.lease_grant(TTL, None).await?.id();
        let (mut keeper, mut kept) = client.lease_keep_alive(lease).await?;
        let mut keeping = JoinSet::new();
        keeping.spawn(async move {
            let mut time = interval(Duration::from_secs(TTL.unsigned_abs() / 3));
            loop {
                time.tick().await;
                // Without the lease the takes fail, which ends the bench with an error.
                if keeper.keep_alive().await.is_err() || kept.message().await.is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            client,
            lease,
            prefix: location.namespace('/'),
            _keeping: keeping,
        })
    }

    pub(super) fn commands() -> Vec<String> {
        vec![
            "Txn: if create_revision(key) = 0 then put key under a lease".to_owned(),
            "DeleteRange key".to_owned(),
        ]
    }

    pub(super) fn lock(&self, key: &str) -> RawLock {
        RawLock {
            client: self.client.clone(),
            lease: self.lease,
            key: format!("{}{key}", self.prefix),
        }
    }

    pub(super) async fn finish(mut self) -> Result<(), Problem> {
        self.client.lease_revoke(self.lease).await?;
        Ok(())
    }
}

impl RawLock {
    pub(super) async fn lock_and_release(&mut self) -> Result<(), Problem> {
        let key = self.key.as_str();
        let options = PutOptions::new().with_lease(self.lease);
        let take = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key, "raw", Some(options))]);
        let taken = self.client.txn(take).await?.succeeded();
        let released = self.client.delete(key, None).await?.deleted();
        if (taken, released) != (true, 1) {
            return Err(was_not_free());
        }
        Ok(())
    }
}
