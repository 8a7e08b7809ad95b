//! The shelf: a store in memory with one fault, as the store under test.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Capabilities, DistributedLock, LockKey, LockRequest};
use lock_testkit::Store;

use crate::client::ShelfLock;
use crate::fault::Fault;
use crate::listener::listen;
use crate::server::Server;

pub(crate) struct Shelf {
    server: Arc<Server>,
    declared: Capabilities,
    patience: Duration,
    /// The address of the server for other processes, set at the first request for it.
    listening: OnceLock<String>,
}

impl Shelf {
    pub(crate) fn new(fault: Fault, declared: Capabilities) -> Self {
        Self {
            server: Arc::new(Server::new(fault)),
            declared,
            // A case that must fail need not allow for a busy machine.
            patience: Duration::from_secs(if fault == Fault::Nothing { 5 } else { 1 }),
            listening: OnceLock::new(),
        }
    }

    fn new_client(&self) -> ShelfLock {
        ShelfLock::new(Arc::clone(&self.server), self.declared.clone())
    }
}

#[async_trait]
impl Store for Shelf {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.new_client())
    }

    fn takes_turns(&self) -> bool {
        true
    }

    async fn residue(&self) -> Vec<String> {
        match self.server.fault {
            Fault::ShowsNothing => Vec::new(),
            _ => self.server.rules().residue(),
        }
    }

    async fn remove(&self, key: &LockKey) -> bool {
        let removed = self.server.rules().evict(key.as_str());
        if self.server.fault != Fault::IgnoresRemovals {
            self.server.push(key.as_str());
        }
        removed
    }

    async fn crash(&self, request: LockRequest) -> bool {
        self.new_client().crash(&request)
    }

    async fn freeze(&self) -> bool {
        self.server.freeze();
        true
    }

    async fn thaw(&self) {
        self.server.thaw();
    }

    async fn switch_over(&self) -> bool {
        self.server.switch_over();
        true
    }

    fn address(&self) -> Option<String> {
        let listening = self.listening.get_or_init(|| {
            let (server, declared) = (Arc::clone(&self.server), self.declared.clone());
            let for_clients = Arc::clone(&server);
            listen(server, move || {
                ShelfLock::new(Arc::clone(&for_clients), declared.clone())
            })
        });
        Some(format!("{:?} {listening}", self.server.fault))
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}
