//! The shelf as a server, which receives requests and sends answers unless it is frozen.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_core::Owner;
use tokio::sync::watch;

use crate::fault::Fault;
use crate::rules::Rules;

#[derive(Debug)]
pub(crate) struct Server {
    rules: Mutex<Rules>,
    frozen: watch::Sender<bool>,
    /// Notifies waiters that a lock was freed.
    freed: watch::Sender<()>,
    pushed: Mutex<HashSet<String>>,
    pub(crate) fault: Fault,
    /// The only owner, for [`Fault::AllOwnersAreOne`].
    pub(crate) owner: Owner,
}

impl Server {
    pub(crate) fn new(fault: Fault) -> Self {
        Self {
            rules: Mutex::new(Rules::new(fault)),
            frozen: watch::Sender::new(false),
            freed: watch::Sender::new(()),
            pushed: Mutex::default(),
            fault,
            owner: Owner::new(),
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Cancel safety
    ///
    /// A request that is dropped on its way never arrives.
    pub(crate) async fn request<T>(&self, work: impl FnOnce(&mut Rules) -> T) -> T {
        self.travel().await;
        let answer = work(&mut self.rules());
        self.travel().await;
        answer
    }

    pub(crate) async fn travel(&self) {
        tokio::task::yield_now().await;
        let mut frozen = self.frozen.subscribe();
        frozen
            .wait_for(|frozen| !frozen)
            .await
            .expect("the server lives");
    }

    /// Returns the state that an operator sees and changes, also on a frozen server.
    pub(crate) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    pub(crate) fn is_frozen(&self) -> bool {
        *self.frozen.borrow()
    }

    pub(crate) fn thaw(&self) {
        self.frozen.send_replace(false);
    }

    /// Hands the state over to another server.
    pub(crate) fn switch_over(&self) {
        if self.fault == Fault::ForgetsAtSwitchover {
            *self.rules() = Rules::new(self.fault);
        }
    }

    /// Wakes all waiters.
    pub(crate) fn push(&self, key: &str) {
        let mut pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        if pushed.insert(key.to_owned()) || self.fault != Fault::PushesOnce {
            self.freed.send_replace(());
        }
    }

    pub(crate) fn pushes(&self) -> watch::Receiver<()> {
        self.freed.subscribe()
    }
}
