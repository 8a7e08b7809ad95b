//! Leases as the conformance cases see them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{DistributedLock, LockKey, LockRequest, Mode};
use lock_mysql::MySqlConfig;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{Case, Need, Store};

use crate::connect;
use crate::place::{PATIENCE, literal, namespace, shared, start};

/// A namespace on a server: on one of its own where the case freezes it, else on the shared one.
pub(crate) struct LeaseStore {
    own: Option<SqlServer>,
    vendor: SqlVendor,
    namespace: String,
}

impl LeaseStore {
    pub(crate) fn for_case(case: Case, vendor: SqlVendor) -> Self {
        Self {
            own: case.needs(Need::Freeze).then(|| start(vendor)),
            vendor,
            namespace: namespace(case),
        }
    }

    fn server(&self) -> &SqlServer {
        match &self.own {
            Some(own) => own,
            None => shared(self.vendor),
        }
    }

    /// The key as it stands in statements.
    fn row(&self, key: &LockKey) -> String {
        literal(&self.namespace, key)
    }
}

#[async_trait]
impl Store for LeaseStore {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        connect(MySqlConfig::new(self.server().url()), &self.namespace).await
    }

    async fn residue(&self) -> Vec<String> {
        let held = format!(
            "LIKE '{}:%' AND expires > UTC_TIMESTAMP(6)",
            self.namespace.replace('_', "\\_")
        );
        let found = self.server().execute(&format!(
            "SELECT k FROM locks WHERE k {held} UNION ALL SELECT CONCAT(k, ' of ', HEX(owner)) FROM locks_holders WHERE k {held}"
        ));
        found.lines().map(str::to_owned).collect()
    }

    async fn remove(&self, key: &LockKey) -> bool {
        let row = self.row(key);
        self.server().execute(&format!(
            "DELETE FROM locks WHERE k = {row}; DELETE FROM locks_holders WHERE k = {row}"
        ));
        true
    }

    async fn crash(&self, request: LockRequest) -> bool {
        let (row, ttl) = (self.row(&request.key), request.ttl().as_micros());
        let (mode, owner) = match request.mode {
            Mode::Exclusive => ('x', "x'000000000000000000000000000000de'"),
            Mode::Shared => ('s', "NULL"),
            Mode::Permit { .. } => ('p', "NULL"),
        };
        let expires = format!("UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND");
        let mut dead = format!(
            "INSERT INTO locks (k, mode, owner, token, ttl, expires) VALUES ({row}, '{mode}', {owner}, 1, {ttl}, {expires}) ON DUPLICATE KEY UPDATE mode = VALUES(mode), owner = VALUES(owner), token = token + 1, ttl = VALUES(ttl), expires = VALUES(expires)"
        );
        if mode != 'x' {
            dead += &format!(
                "; INSERT INTO locks_holders (k, owner, token, ttl, expires) VALUES ({row}, x'000000000000000000000000000000de', 1, {ttl}, {expires})"
            );
        }
        self.server().execute(&dead);
        true
    }

    async fn freeze(&self) -> bool {
        match &self.own {
            Some(server) => {
                server.freeze();
                true
            }
            None => false,
        }
    }

    async fn thaw(&self) {
        if let Some(server) = &self.own {
            server.thaw();
        }
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}
