//! Row locks as stores of the conformance cases.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{DistributedLock, LockKey, LockRequest, Mode};
use lock_mysql::MySqlHold;
use lock_testkit::servers::{ServerProcess, Spare, SqlServer, SqlSession};
use lock_testkit::{Case, Need, Store};

use crate::connect;
use crate::place::{PATIENCE, Place, literal, namespace};

/// A namespace on a server: on its own server where the case disturbs it, else on the shared
/// server.
pub(crate) struct RowStore {
    own: Option<Spare<SqlServer>>,
    place: Place,
    namespace: String,
    /// Sessions that hold a row and send nothing more.
    silent: Mutex<Vec<SqlSession>>,
}

impl RowStore {
    pub(crate) fn for_case(case: Case, place: Place) -> Self {
        let needs = [Need::Freeze, Need::Switchover, Need::Remove];
        let alone = needs.into_iter().any(|need| case.needs(need));
        Self {
            own: alone.then(|| place.lend()),
            place,
            namespace: namespace(case),
            silent: Mutex::default(),
        }
    }

    fn server(&self) -> &SqlServer {
        match &self.own {
            Some(own) => own,
            None => self.place.shared(),
        }
    }
}

#[async_trait]
impl Store for RowStore {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        let config = self
            .place
            .config(self.server())
            .with_hold(MySqlHold::Row)
            .with_connections(1100);
        connect(config, &self.namespace).await
    }

    fn takes_turns(&self) -> bool {
        true
    }

    async fn residue(&self) -> Vec<String> {
        let ours = format!("LIKE '{}:%'", self.namespace.replace('_', "\\_"));
        let rows = format!("SELECT HEX(k) FROM {} WHERE k {ours}", self.place.locks());
        // The first rows of the answer are the unlocked rows.
        let mut found = self.place.look(self.own.as_deref(), &format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; {rows} FOR UPDATE SKIP LOCKED; SELECT 'all'; {rows}"
        ));
        let all = found.iter().position(|row| row == "all");
        let mut held = found.split_off(all.expect("it was asked for"));
        held.retain(|row| row != "all" && !found.contains(row));
        held
    }

    async fn remove(&self, _key: &LockKey) -> bool {
        let Some(server) = &self.own else {
            return false;
        };
        // Sessions of holders are asleep; sessions of waiters are in a statement.
        let holders = server.execute(
            "SELECT id FROM information_schema.processlist WHERE command = 'Sleep' AND id <> CONNECTION_ID()",
        );
        for holder in holders.lines() {
            // The session may have ended by itself.
            let _ended = server.try_execute(&format!("KILL {holder}"));
        }
        !holders.is_empty()
    }

    async fn crash(&self, request: LockRequest) -> bool {
        let (row, locks) = (literal(&self.namespace, &request.key), self.place.locks());
        let lock = match request.mode {
            Mode::Exclusive => "FOR UPDATE",
            Mode::Shared => "LOCK IN SHARE MODE",
            _ => return false,
        };
        let mut silent = self.server().session();
        let statements = format!(
            "INSERT IGNORE INTO {locks} (k, token, expires) VALUES ({row}, 0, UTC_TIMESTAMP(6)); SET SESSION wait_timeout = {}; BEGIN; SELECT token FROM {locks} WHERE k = {row} {lock}",
            request.ttl().as_millis().div_ceil(1000)
        );
        let silent = tokio::task::spawn_blocking(move || {
            silent.run(&statements);
            silent
        });
        let silent = silent.await.expect("it is held");
        self.silent.lock().expect("nobody panics").push(silent);
        true
    }

    async fn switch_over(&self) -> bool {
        let own = self.own.as_deref();
        tokio::task::block_in_place(|| own.map(|server| server.restart())).is_some()
    }

    fn address(&self) -> Option<String> {
        self.place.address(self.server(), &self.namespace, "row")
    }

    fn ends_with_connection(&self) -> bool {
        true
    }

    fn process(&self) -> Option<&ServerProcess> {
        self.own.as_deref().map(Deref::deref)
    }

    fn ttl(&self) -> Duration {
        // Each hold has a heartbeat of its own, so crowds of holders need more time.
        Duration::from_secs(2)
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}
