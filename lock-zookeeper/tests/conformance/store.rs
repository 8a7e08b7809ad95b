//! An ensemble as a store of the conformance cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::blocking_claim;
use lock_core::{DistributedLock, LockKey, LockRequest, Mode};
use lock_testkit::servers::{Spare, ZooKeeperServer};
use lock_testkit::{Case, Need, Store};
use lock_zookeeper::zookeeper_client::{Acls, Client, CreateMode, Error};
use tokio::sync::OnceCell;

use super::permissions::{LOCKER, OPERATOR};
use super::place::{Place, thaw};
use super::{REACHED_BY_OTHERS, connect};

/// The id in the claim of a client that crashes.
const GUID: &str = "00000000-0000-0000-0000-0000000000de";

/// A node on a server, which is shared unless the case freezes or restarts it.
pub(crate) struct ZooKeeperStore {
    own: Option<Spare<ZooKeeperServer>>,
    place: Place,
    chroot: String,
    admin: OnceCell<Client>,
}

impl ZooKeeperStore {
    pub(crate) fn for_case(case: Case, place: Place) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);

        // The number separates runs of one case at the same time.
        let name = case.to_string().replace("::", ".");
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let alone = case.needs(Need::Freeze) || case.needs(Need::Switchover);
        Self {
            own: alone.then(|| place.lend()),
            place,
            chroot: format!("/{name}.{number}"),
            admin: OnceCell::new(),
        }
    }

    fn server(&self) -> &ZooKeeperServer {
        self.own.as_deref().unwrap_or_else(|| self.place.shared())
    }

    async fn connect(&self, ttl: Duration, detached: bool) -> Client {
        let connector = Client::connector()
            .with_session_timeout(ttl)
            .with_auth("digest", LOCKER.as_bytes())
            .with_auth("digest", OPERATOR.as_bytes());
        let connector = if detached {
            connector.with_detached()
        } else {
            connector
        };
        let client = connector.connect(&self.server().address()).await;
        client.expect("the server runs")
    }

    async fn admin(&self) -> &Client {
        let connecting = || self.connect(Duration::from_secs(30), false);
        self.admin.get_or_init(connecting).await
    }

    fn lock(&self, key: &LockKey) -> String {
        format!("{}/{key}", self.chroot)
    }

    /// Returns the operator's client, after its server has caught up with the ensemble.
    async fn admin_up_to_date(&self) -> &Client {
        let admin = self.admin().await;
        admin.sync(&self.chroot).await.expect("in touch");
        admin
    }

    /// Returns the claims on a lock in their order.
    async fn line(&self, lock: &str) -> Vec<(String, Mode)> {
        let mut children = match self.admin_up_to_date().await.list_children(lock).await {
            Ok(children) => children,
            Err(Error::NoNode) => Vec::new(),
            Err(error) => panic!("{lock} cannot be listed: {error}"),
        };
        children.retain(|name| name.contains("lock-"));
        children.sort_by_key(|name| name[name.len() - 10..].to_owned());
        let with_mode = |name: String| {
            let mode = mode_of(&name);
            (name, mode)
        };
        children.into_iter().map(with_mode).collect()
    }

    async fn holders(&self, lock: &str) -> Vec<String> {
        let line = self.line(lock).await;
        let modes: Vec<Mode> = line.iter().map(|(_, mode)| *mode).collect();
        let holds =
            |(index, _): &(usize, &(String, Mode))| blocking_claim(&modes, *index).is_none();
        let holders = line.iter().enumerate().filter(holds);
        holders.map(|(_, (name, _))| name.clone()).collect()
    }
}

fn mode_of(name: &str) -> Mode {
    if name.contains("-shared-lock-") {
        return Mode::Shared;
    }
    let permit = name.split_once("-permit-");
    match permit.and_then(|(_, rest)| rest.split('-').next()) {
        Some(of) => Mode::permit(of.parse().expect("a number")).expect("at least one"),
        None => Mode::Exclusive,
    }
}

#[async_trait]
impl Store for ZooKeeperStore {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        let config = self.place.config(self.server(), &self.chroot).await;
        connect(config).await
    }

    fn takes_turns(&self) -> bool {
        true
    }

    /// Returns the claims only. Lock nodes are removed a second later, as `tests/server/residue.rs`
    /// checks.
    async fn residue(&self) -> Vec<String> {
        let admin = self.admin_up_to_date().await;
        let (mut left, mut below) = (Vec::new(), vec![self.chroot.clone()]);
        while let Some(node) = below.pop() {
            match admin.list_children(&node).await {
                Ok(children) => {
                    below.extend(children.iter().map(|name| format!("{node}/{name}")));
                }
                Err(Error::NoNode) => {}
                Err(error) => panic!("{node} cannot be listed: {error}"),
            }
            let name = node.rsplit('/').next().unwrap_or_default();
            if name.starts_with("_c_") {
                left.push(node);
            }
        }
        left
    }

    async fn remove(&self, key: &LockKey) -> bool {
        let lock = self.lock(key);
        let mut removed = false;
        for holder in self.holders(&lock).await {
            let path = format!("{lock}/{holder}");
            removed |= self.admin().await.delete(&path, None).await.is_ok();
        }
        removed
    }

    async fn crash(&self, request: LockRequest) -> bool {
        let doomed = self.connect(request.ttl(), true).await;
        let lock = self.lock(&request.key);
        let mode = match request.mode {
            Mode::Exclusive => String::new(),
            Mode::Shared => "shared-".to_owned(),
            Mode::Permit { of } => format!("permit-{of}-"),
            other => panic!("no crash of {other:?} is known"),
        };
        let acls = match self.place {
            Place::Limited => Acls::creator_all(),
            _ => Acls::anyone_all(),
        };
        let container = CreateMode::Container.with_acls(acls);
        for level in [&self.chroot, &lock] {
            let _there = doomed.create(level, &[], &container).await;
        }
        let start = format!("{lock}/_c_{GUID}-{mode}lock-");
        let ephemeral = CreateMode::EphemeralSequential.with_acls(acls);
        let created = doomed.create(&start, &[], &ephemeral).await;
        let (_, sequence) = created.expect("the server runs");
        let ours = start.replace(&format!("{lock}/"), "") + &sequence.to_string();
        let granted = self.holders(&lock).await.contains(&ours);
        if !granted {
            let withdrawn = doomed.delete(&format!("{lock}/{ours}"), None).await;
            withdrawn.expect("the server runs");
        }
        granted
    }

    async fn freeze(&self) -> bool {
        if let Some(server) = &self.own {
            server.members().iter().for_each(|member| member.freeze());
        }
        self.own.is_some()
    }

    async fn thaw(&self) {
        if let Some(server) = &self.own {
            thaw(server);
        }
    }

    /// Restarts the leader. Other members elect another leader, and a single server keeps its data.
    async fn switch_over(&self) -> bool {
        let server = self.own.as_ref();
        let restart = |server: &ZooKeeperServer| server.member(server.leader()).restart();
        tokio::task::block_in_place(|| server.map(|server| restart(server))).is_some()
    }

    fn address(&self) -> Option<String> {
        let is_reached = REACHED_BY_OTHERS && self.place == Place::One;
        is_reached.then(|| format!("{} {}", self.chroot, self.server().address()))
    }

    /// Returns twice the server's minimum, so that a busy machine can renew in time.
    ///
    /// Holds count on three quarters of it.
    fn ttl(&self) -> Duration {
        Duration::from_secs(4)
    }

    fn patience(&self) -> Duration {
        // The driver doubles the pause before each reconnection. After a longer freeze, it
        // reconnects a few seconds late.
        Duration::from_secs(10)
    }
}
