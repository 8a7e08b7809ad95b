//! The equipment of a case: the store, its clients, requests and random numbers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Capabilities, LockKey, LockRequest, Mode, Wait};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use crate::client::{Client, Waiting, keeps_waiting_until};
use crate::eventually::becomes_true;
use crate::processes::{Child, Role};
use crate::{Need, Store};

/// The ttl of holds that must not expire during a case: far above the patience of any store.
const LONG_TTL: Duration = Duration::from_secs(40);

#[derive(Clone)]
pub(crate) struct Bench(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    capabilities: Capabilities,
    seed: u64,
    missing: Mutex<Option<Need>>,
}

impl Bench {
    pub(crate) async fn new(store: Arc<dyn Store>, seed: u64) -> Self {
        let capabilities = store.client().await.capabilities();
        Self(Arc::new(Inner {
            store,
            capabilities,
            seed,
            missing: Mutex::default(),
        }))
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(self.0.store.client().await, self.prompt())
    }

    pub(crate) async fn clients<const N: usize>(&self) -> [Client; N] {
        let mut clients = Vec::with_capacity(N);
        for _ in 0..N {
            clients.push(self.client().await);
        }
        clients.try_into().expect("as many as were asked for")
    }

    /// Returns the time limit for an answer, a wake-up or a clean-up, each of a few round trips.
    pub(crate) fn prompt(&self) -> Duration {
        self.0.store.patience()
    }

    /// Returns the ttl of leases that are to be renewed or lost.
    pub(crate) fn short(&self) -> Duration {
        self.possible(self.0.store.ttl())
    }

    /// Creates a request whose hold does not expire during the case.
    pub(crate) fn request(&self, key: &str, mode: Mode) -> LockRequest {
        let key = LockKey::new(key).expect("a valid key");
        LockRequest::new(key, mode).with_ttl(self.possible(LONG_TTL))
    }

    pub(crate) fn exclusive(&self, key: &str) -> LockRequest {
        self.request(key, Mode::Exclusive)
    }

    /// Creates a request whose hold expires soon unless it is renewed.
    pub(crate) fn brief(&self, key: &str, mode: Mode) -> LockRequest {
        self.request(key, mode).with_ttl(self.short())
    }

    fn possible(&self, ttl: Duration) -> Duration {
        let range = &self.capabilities().ttl;
        ttl.clamp(*range.start(), *range.end())
    }

    /// Returns the modes that the backend declares.
    pub(crate) fn modes(&self) -> Vec<Mode> {
        let mut modes = vec![Mode::Exclusive];
        if self.capabilities().shared {
            modes.push(Mode::Shared);
        }
        if self.capabilities().upgrades {
            modes.push(Mode::Upgradeable);
        }
        if self.capabilities().permits {
            modes.push(permit(2));
        }
        modes
    }

    /// Returns the random numbers of a part of the case, which depend on the seed and `part` only.
    pub(crate) fn random(&self, part: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.0.seed ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) async fn residue(&self) -> Vec<String> {
        self.0.store.residue().await
    }

    /// Starts to wait for a lock that another guard holds, behind all earlier waiters.
    pub(crate) async fn line_up(&self, client: &Client, request: &LockRequest) -> Waiting {
        if !self.capabilities().fair {
            return client.line_up(request).await;
        }
        // A fair store has an entry for each waiter, so wait until the new entry appears.
        let before = self.residue().await.len();
        let request = request.clone().with_wait(Wait::Forever);
        let mut waiting: Waiting = Box::pin(client.acquire(request));
        let shows = becomes_true(self.prompt(), || async {
            self.residue().await.len() > before
        });
        keeps_waiting_until(&mut waiting, shows).await;
        waiting
    }

    /// Asserts that nothing is left on the store after a few round trips.
    pub(crate) async fn nothing_is_left(&self) {
        self.nothing_is_left_within(self.prompt()).await;
    }

    pub(crate) async fn nothing_is_left_within(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut empty_looks = 0;
        // Look more than once, since a request may arrive after its own clean-up.
        while empty_looks < 3 {
            let left = self.residue().await;
            assert!(
                left.is_empty() || Instant::now() < end,
                "{} left on the store {limit:?} after everything was released: {left:?}",
                left.len()
            );
            empty_looks = if left.is_empty() { empty_looks + 1 } else { 0 };
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Removes the hold on `key`; returns false and notes the need if the store cannot.
    pub(crate) async fn remove(&self, key: &str) -> bool {
        let key = LockKey::new(key).expect("a valid key");
        self.has(Need::Remove, self.0.store.remove(&key).await)
    }

    pub(crate) async fn crash(&self, request: LockRequest) -> bool {
        self.has(Need::Crash, self.0.store.crash(request).await)
    }

    pub(crate) async fn freeze(&self) -> bool {
        self.has(Need::Freeze, self.0.store.freeze().await)
    }

    pub(crate) async fn thaw(&self) {
        self.0.store.thaw().await;
    }

    /// Switches over to another server; returns false and notes the need if the store cannot.
    pub(crate) async fn switch_over(&self) -> bool {
        self.has(Need::Switchover, self.0.store.switch_over().await)
    }

    /// Starts a child process that takes the lock of `request` and plays `role`.
    pub(crate) fn child(&self, request: &LockRequest, role: Role) -> Child {
        let address = self.0.store.address();
        let address = address.expect("the case needs it, so it was asked for before");
        block_in_place(|| Child::start(address, request, role))
    }

    /// Starts a child process for a free lock; returns it with its token once it holds the lock.
    pub(crate) fn holder(&self, request: &LockRequest, role: Role) -> (Child, u64) {
        let mut child = self.child(request, role);
        let token = block_in_place(|| child.token());
        (child, token)
    }

    /// Returns true if a hold ends with the connection of its holder.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.0.store.ends_with_connection()
    }

    fn has(&self, need: Need, could: bool) -> bool {
        if !could {
            *self
                .0
                .missing
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(need);
        }
        could
    }

    /// Returns the need because of which the case ended early, if it did.
    pub(crate) fn missing(&self) -> Option<Need> {
        *self
            .0
            .missing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn permit(of: u32) -> Mode {
    Mode::permit(of).expect("more than zero")
}
