//! The requests of a client, and the connections that they travel on.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse};
use lock_core::Result;
use lock_core::backend::{
    Claim, ClaimId, Clock, Deadlines, Detached, HoldId, KeeperRuntime, Moment, Mutex, PerRuntime,
};
use tokio::runtime::Handle;

use crate::EtcdConfig;
use crate::claim::key::ClaimKey;
use crate::claim::key_pool::KeyPool;
use crate::connection::connect::Connector;
use crate::connection::shared_connection::{REPLY_LIMIT, SharedConnection, transact};
use crate::error::Failure;
use crate::keys::{Keys, end_of};
use crate::lease::migrate::follow;
use crate::lease::pool::{LeasePool, Span};
use crate::queue::QueueSnapshot;
use crate::wait::shared_waits::SharedWaits;
use crate::watch::watches::Watches;

/// The time to wait for the version of a member, which is only logged.
const VERSION_LIMIT: Duration = Duration::from_millis(500);

pub(crate) struct Client {
    pub(crate) keys: Keys,
    /// The connection of each runtime that acquires.
    command: PerRuntime<SharedConnection>,
    background: PerRuntime<Background>,
    claims: Mutex<HashMap<ClaimId, Arc<ClaimKey>>>,
    key_pool: KeyPool,
    /// The shortest ttl that the servers grant.
    pub(crate) shortest: Duration,
}

/// The part of a client that lives on the runtime where its holds are kept.
pub(crate) struct Background {
    pub(crate) connection: Arc<SharedConnection>,
    pub(crate) leases: Arc<LeasePool>,
    pub(crate) watches: Watches,
    pub(crate) waits: Arc<SharedWaits>,
}

/// The way in which a take treats the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Enters the queue, whatever claims are in it, and lists them.
    Enqueue,
    /// Enters the queue without listing it. The claim is known to be next, or to come behind
    /// waiters of this client.
    KeepPlace,
    /// Enters the queue only if it is empty. Lists at most this number of claims; zero means all.
    IfQueueEmpty(i64),
}

impl Client {
    /// Connects to the first member that answers.
    pub(crate) async fn connect(
        config: &EtcdConfig,
        keeper_runtime: &KeeperRuntime,
    ) -> Result<Self> {
        let keys = Keys::new(&config.namespace);
        let connector = Arc::new(Connector::new(config, &keys)?);
        let deadlines = Deadlines::new(keeper_runtime.clone());
        let open = move |runtime: &Handle| {
            SharedConnection::new(Arc::clone(&connector), deadlines.clone(), runtime.clone())
        };
        let open_in_background = open.clone();
        let mut client = Self {
            keys,
            command: PerRuntime::new(KeeperRuntime::caller(), open),
            background: PerRuntime::new(keeper_runtime.clone(), move |runtime| {
                let connection = open_in_background(runtime);
                let watches = Watches::over(Arc::clone(&connection));
                Arc::new(Background {
                    leases: LeasePool::over(Arc::clone(&connection)),
                    waits: SharedWaits::over(Arc::clone(&connection), watches.clone()),
                    watches,
                    connection,
                })
            }),
            claims: Mutex::default(),
            key_pool: KeyPool::default(),
            shortest: Duration::ZERO,
        };
        client.command()?.connection().await?;
        client.shortest = client.background()?.leases.granting.shortest().await?;
        Ok(client)
    }

    /// Returns the member that the client is connected to, and its version if the member answers
    /// soon.
    pub(crate) async fn server(&self) -> Result<(String, Option<String>)> {
        let command = self.command()?;
        let connection = command.connection().await?;
        let mut maintenance = connection.client.maintenance_client();
        let status = command.within(VERSION_LIMIT, maintenance.status()).await;
        let version = status.and_then(|status| Some(status.ok()?.version().to_owned()));
        Ok((connection.server.to_string(), version))
    }

    /// Returns the command connection of the caller's runtime.
    pub(crate) fn command(&self) -> Result<Arc<SharedConnection>> {
        self.command.current()
    }

    /// Returns the command connection of the runtime that a hold was claimed on, while that runtime
    /// lives.
    pub(crate) fn command_of(&self, hold: &HoldId) -> Option<Arc<SharedConnection>> {
        self.command.of(hold.runtime())
    }

    /// Returns the part of the client on the runtime where holds are kept.
    pub(crate) fn background(&self) -> Result<Arc<Background>> {
        self.background.current()
    }

    /// Registers a claim, with its lease and its key, before the first write.
    pub(crate) async fn enter_claim(&self, claim: &Claim) -> Result<Arc<ClaimKey>> {
        let (hold, loss) = (claim.id(), claim.loss());
        let leases = Arc::clone(&self.background()?.leases);
        let lease = leases.enter(Span::of(hold), hold.claim(), &loss).await?;
        let claim_key = ClaimKey::new(&self.keys, &self.key_pool, claim, lease);
        let mut claims = self.claims.lock();
        claims.insert(hold.claim(), Arc::clone(&claim_key));
        Ok(claim_key)
    }

    /// Registers a claim whose key is on the servers.
    pub(crate) fn enter(&self, claim: ClaimId, claim_key: Arc<ClaimKey>) {
        self.claims.lock().insert(claim, claim_key);
    }

    /// Forgets a claim whose key another claim has got, unless the release of the key has begun.
    pub(crate) fn give_over(&self, claim: ClaimId) -> bool {
        let mut claims = self.claims.lock();
        let is_kept = |claim_key: &Arc<ClaimKey>| !claim_key.is_released();
        if !claims.get(&claim).is_some_and(is_kept) {
            return false;
        }
        let claim_key = claims.remove(&claim);
        drop(claims);
        claim_key.inspect(|claim_key| claim_key.lease.leave(claim));
        true
    }

    /// Forgets a claim that has no key on the servers, or whose key another claim has kept.
    pub(crate) fn leave(&self, claim: ClaimId) {
        if let Some(claim_key) = self.claims.lock().remove(&claim) {
            claim_key.lease.leave(claim);
            if claim_key.is_reusable() {
                let name = Arc::clone(&claim_key.key);
                self.key_pool.keep(&claim_key.queue, claim_key.mode, name);
            }
        }
    }

    /// Sends a take, and returns the queue that it was answered with.
    ///
    /// A take that has begun is always finished: requests may overtake each other, so a clean-up
    /// has to wait for the end of the take.
    pub(crate) async fn take(
        &self,
        claim_key: &Arc<ClaimKey>,
        take: Take,
        limit: Duration,
    ) -> std::result::Result<QueueSnapshot, Failure> {
        let ends = Clock::Boot.now().plus(limit);
        let command = self.command().map_err(Failure::NotSent)?;
        let (connection, asked) = (Arc::clone(&command), Arc::clone(claim_key));
        let lease = claim_key.lease.id();
        let asking = Detached::new(command.runtime(), async move {
            let under_way = asked.begin();
            let transaction = take.transaction(&asked, lease);
            let sending = |client| transact(client, transaction.clone());
            let in_doubt = || asked.mark_in_doubt();
            let outcome = connection.ask_noting(limit, sending, in_doubt).await;
            under_way.ended();
            outcome
        });
        let answer = asking.await.inspect_err(|failure| {
            if matches!(failure, Failure::LeaseMissing(_)) {
                claim_key.lease.note_missing(lease);
            }
        })?;
        claim_key.lease.may_read(&claim_key.queue);
        let queue = QueueSnapshot::read(&answer, &claim_key.queue, &claim_key.key);
        let mut queue = queue.map_err(Failure::Unknown)?;
        queue.is_partial |= take == Take::KeepPlace;
        if let Some(former) = queue.lease().filter(|lease| *lease != claim_key.lease.id()) {
            follow(&command, claim_key, former, ends).await?;
        }
        Ok(queue)
    }

    /// Returns for each claim the revision in which its key was there as granted; `None` if it is
    /// gone.
    ///
    /// A take that arrived late may have created a deleted key again, behind other claims. That key
    /// counts as gone.
    pub(crate) async fn existing_claims(
        &self,
        claims: &[&Arc<ClaimKey>],
        limit: Duration,
    ) -> Result<Vec<Option<i64>>> {
        let connection = Arc::clone(&self.background()?.connection);
        let stood = |revision, found: &TxnOpResponse| match found {
            TxnOpResponse::Get(found) if !found.kvs().is_empty() => Some(revision),
            _ => None,
        };
        let look = |claim_key: &&Arc<ClaimKey>| claim_key.look();
        Ok(connection.ask_for_all(limit, claims, look, stood).await?)
    }

    pub(crate) fn known(&self, hold: &HoldId) -> Option<Arc<ClaimKey>> {
        self.claims.lock().get(&hold.claim()).cloned()
    }

    /// Marks a hold as being released and returns its claim, if the client still has it. A later
    /// [leave](Self::leave) sees the mark.
    pub(crate) fn begin_release(&self, hold: &HoldId) -> Option<Arc<ClaimKey>> {
        let claims = self.claims.lock();
        let claim_key = claims.get(&hold.claim())?;
        claim_key.mark_released();
        Some(Arc::clone(claim_key))
    }

    /// Keeps a claim whose release failed, for as long as the release may be repeated.
    pub(crate) fn forget_soon(&self, claim_key: &ClaimKey, ttl: Duration) {
        let now = Clock::Boot.now();
        let until: Moment = now.plus(ttl + REPLY_LIMIT * 2);
        claim_key.forget_at(until);
        let mut claims = self.claims.lock();
        claims.retain(|_, claim_key| !claim_key.is_forgotten(now));
    }
}

impl Take {
    /// Builds the transaction. It may write in each case, so all members agree on it, and no member
    /// answers it from its own state.
    fn transaction(self, claim_key: &ClaimKey, lease: i64) -> Txn {
        let (key, queue) = (&*claim_key.key, claim_key.queue.as_str());
        let below = || GetOptions::new().with_range(end_of(queue));
        let list = |limit| TxnOp::get(queue, Some(below().with_limit(limit)));
        let own = || TxnOp::get(key, None);
        let put = PutOptions::new().with_lease(lease);
        let put = TxnOp::put(key, claim_key.value.to_text(), Some(put));
        let is_absent = Compare::create_revision(key, CompareOp::Equal, 0);
        let is_empty =
            Compare::create_revision(queue, CompareOp::Equal, 0).with_range(end_of(queue));
        let (when, placed, refused) = match self {
            Self::Enqueue => (is_absent, list(0), vec![list(0)]),
            Self::KeepPlace => (is_absent, own(), vec![own()]),
            Self::IfQueueEmpty(limit) => (is_empty, own(), vec![list(limit), own()]),
        };
        Txn::new()
            .when([when])
            .and_then([put, placed])
            .or_else(refused)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("command", &self.command)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}
