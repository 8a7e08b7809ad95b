//! Leases as stores of the conformance cases.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{DistributedLock, LockKey, LockRequest, Mode};
use lock_testkit::servers::{ServerProcess, Spare, SqlServer};
use lock_testkit::{Case, Need, Store};

use crate::connect;
use crate::place::{PATIENCE, Place, literal, namespace};

/// A namespace on a server: on its own server where the case freezes or restarts it, else on the
/// shared server.
pub(crate) struct LeaseStore {
    own: Option<Spare<SqlServer>>,
    place: Place,
    namespace: String,
}

impl LeaseStore {
    pub(crate) fn for_case(case: Case, place: Place) -> Self {
        let alone = case.needs(Need::Freeze) || case.needs(Need::Switchover);
        Self {
            own: alone.then(|| place.lend()),
            place,
            namespace: namespace(case),
        }
    }

    fn server(&self) -> &SqlServer {
        match &self.own {
            Some(own) => own,
            None => self.place.shared(),
        }
    }

    /// Returns the key as an SQL literal.
    fn row(&self, key: &LockKey) -> String {
        literal(&self.namespace, key)
    }
}

#[async_trait]
impl Store for LeaseStore {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        connect(self.place.config(self.server()), &self.namespace).await
    }

    fn takes_turns(&self) -> bool {
        true
    }

    async fn residue(&self) -> Vec<String> {
        let held = format!(
            "LIKE '{}:%' AND expires > UTC_TIMESTAMP(6)",
            self.namespace.replace('_', "\\_")
        );
        let locks = self.place.locks();
        self.place.look(self.own.as_deref(), &format!(
            "SELECT k FROM {locks} WHERE k {held} UNION ALL SELECT CONCAT(k, ' of ', HEX(owner)) FROM {locks}_holders WHERE k {held}"
        ))
    }

    async fn remove(&self, key: &LockKey) -> bool {
        let (row, locks) = (self.row(key), self.place.locks());
        self.server().execute(&format!(
            "DELETE FROM {locks} WHERE k = {row}; DELETE FROM {locks}_holders WHERE k = {row}"
        ));
        true
    }

    async fn crash(&self, request: LockRequest) -> bool {
        let (row, locks) = (self.row(&request.key), self.place.locks());
        let ttl = request.ttl().as_micros();
        let (mode, owner) = match request.mode {
            Mode::Exclusive => ('x', "x'000000000000000000000000000000de'"),
            Mode::Shared => ('s', "NULL"),
            Mode::Permit { .. } => ('p', "NULL"),
            other => panic!("no crash of {other:?} is known"),
        };
        let expires = format!("UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND");
        let mut dead = format!(
            "INSERT INTO {locks} (k, mode, owner, token, ttl, expires) VALUES ({row}, '{mode}', {owner}, 1, {ttl}, {expires}) ON DUPLICATE KEY UPDATE mode = VALUES(mode), owner = VALUES(owner), token = token + 1, ttl = VALUES(ttl), expires = VALUES(expires)"
        );
        if mode != 'x' {
            dead += &format!(
                "; INSERT INTO {locks}_holders (k, owner, token, ttl, expires) VALUES ({row}, x'000000000000000000000000000000de', 1, {ttl}, {expires})"
            );
        }
        self.server().execute(&dead);
        true
    }

    async fn switch_over(&self) -> bool {
        let own = self.own.as_deref();
        tokio::task::block_in_place(|| own.map(|server| server.restart())).is_some()
    }

    fn address(&self) -> Option<String> {
        self.place.address(self.server(), &self.namespace, "lease")
    }

    fn process(&self) -> Option<&ServerProcess> {
        self.own.as_deref().map(Deref::deref)
    }

    fn ttl(&self) -> Duration {
        // Long enough for renewals beside the crowds of other cases.
        Duration::from_secs(2)
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}
