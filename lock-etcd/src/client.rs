//! The requests of a client, and the connections that they travel on.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lock_core::{
    Claim, Clock, Deadlines, HoldId, KeeperRuntime, Moment, Mutex, OwnerId, PerRuntime, Result,
};

use crate::EtcdConfig;
use crate::claim_key::ClaimKey;
use crate::connection::connect::Connector;
use crate::connection::shared::SharedConnection;
use crate::detached::Detached;
use crate::error::{Failure, is_lease_missing};
use crate::key_pool::KeyPool;
use crate::keys::{Keys, end_of, mode_text};
use crate::lease::migrate::follow;
use crate::lease::pool::{LeasePool, Span};
use crate::queue::Queue;
use crate::wait::shared_waits::SharedWaits;
use crate::watch::watches::Watches;

/// The time that a request waits for its answer, if nothing shorter applies: long enough for members to elect
/// a leader, mostly.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// The size that an answer may have: a long queue, or many locks whose names are below this one's.
const ANSWER_MAX: usize = 64 << 20;

/// The time to wait for a member to tell its version, which is only logged.
const VERSION_LIMIT: Duration = Duration::from_millis(500);

pub(crate) struct Client {
    pub(crate) keys: Keys,
    /// One link on each runtime that acquires.
    command: PerRuntime<SharedConnection>,
    background: PerRuntime<Background>,
    places: Mutex<HashMap<OwnerId, Arc<ClaimKey>>>,
    names: KeyPool,
}

/// The part of a client that lives where its holds are kept.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) link: Arc<SharedConnection>,
    pub(crate) leases: Arc<LeasePool>,
    pub(crate) watches: Watches,
    pub(crate) waits: Arc<SharedWaits>,
}

/// The way of taking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Stands in the queue, whoever is before.
    Enqueue,
    /// Enters the queue, and looks at no other claim: it is known which one is before, or that there is none.
    KeepPlace,
    /// Writes nothing unless nobody is there. Lists so many claims at most; zero means all.
    IfQueueEmpty(i64),
}

impl Client {
    /// Connects; returns the client and the shortest ttl that the servers give.
    pub(crate) async fn connect(
        config: &EtcdConfig,
        keeper_runtime: &KeeperRuntime,
    ) -> Result<(Self, Duration)> {
        let keys = Keys::new(&config.namespace);
        let connector = Arc::new(Connector::new(config, &keys)?);
        let deadlines = Deadlines::new(keeper_runtime.clone());
        let (background_wire, background_patrol) = (Arc::clone(&connector), deadlines.clone());
        let client = Self {
            keys,
            command: PerRuntime::new(KeeperRuntime::caller(), move |runtime| {
                SharedConnection::new(Arc::clone(&connector), deadlines.clone(), runtime.clone())
            }),
            background: PerRuntime::new(keeper_runtime.clone(), move |runtime| {
                let link = SharedConnection::new(
                    Arc::clone(&background_wire),
                    background_patrol.clone(),
                    runtime.clone(),
                );
                let watches = Watches::over(Arc::clone(&link));
                Arc::new(Background {
                    leases: LeasePool::over(Arc::clone(&link)),
                    waits: SharedWaits::over(Arc::clone(&link), watches.clone()),
                    watches,
                    link,
                })
            }),
            places: Mutex::default(),
            names: KeyPool::default(),
        };
        client.lane()?.connection().await?;
        let shortest = client.background()?.leases.granting.shortest().await?;
        Ok((client, shortest))
    }

    /// The member that we are connected to, and its version, if it tells that soon.
    pub(crate) async fn server(&self) -> Result<(String, Option<String>)> {
        let link = self.lane()?;
        let connection = link.connection().await?;
        let mut maintenance = connection.client.maintenance_client();
        let status = link.within(VERSION_LIMIT, maintenance.status()).await;
        let version = status.and_then(|status| Some(status.ok()?.version().to_owned()));
        Ok((connection.server.to_string(), version))
    }

    /// The command connection of the caller's runtime.
    pub(crate) fn lane(&self) -> Result<Arc<SharedConnection>> {
        self.command.here()
    }

    /// Returns that of the runtime that a hold was claimed on, as long as that lives.
    pub(crate) fn lane_of(&self, hold: &HoldId) -> Option<Arc<SharedConnection>> {
        self.command.of(hold.runtime())
    }

    /// Returns what there is where holds are kept.
    pub(crate) fn background(&self) -> Result<Arc<Background>> {
        self.background.here()
    }

    /// Finds a lease for a claim, before its first write.
    pub(crate) async fn place(&self, claim: &Claim) -> Result<Arc<ClaimKey>> {
        let (hold, loss) = (claim.id(), claim.loss());
        let leases = Arc::clone(&self.background()?.leases);
        let lease = leases.enter(Span::of(hold), hold.owner(), &loss).await?;
        let place = ClaimKey::new(&self.keys, &self.names, claim, lease);
        self.places.lock().insert(hold.owner(), Arc::clone(&place));
        Ok(place)
    }

    /// Forgets a claim of which nothing is on the servers.
    pub(crate) fn leave(&self, owner: OwnerId) {
        if let Some(place) = self.places.lock().remove(&owner) {
            place.lease.leave(owner);
            if place.is_reusable() {
                let name = Arc::clone(&place.key);
                self.names.keep(&place.queue, place.mode, name);
            }
        }
    }

    /// Takes, or asks how far we have come: the queue, if anything was answered.
    ///
    /// Nothing stops it once it has begun, since a clean-up has to wait for its end: requests may overtake
    /// each other on their way.
    pub(crate) async fn take(
        &self,
        place: &Arc<ClaimKey>,
        take: Take,
        limit: Duration,
    ) -> std::result::Result<Queue, Failure> {
        let ends = Clock::Boot.now().plus(limit);
        let lane = self.lane().map_err(Failure::NotSent)?;
        let (link, asked) = (Arc::clone(&lane), Arc::clone(place));
        let lease = place.lease.id();
        let asking = Detached::new(lane.runtime(), async move {
            let under_way = asked.begin();
            let transaction = take.transaction(&asked, lease);
            let sending = |client| transact(client, transaction.clone());
            let outcome = link
                .ask_noting(limit, sending, || asked.mark_in_doubt())
                .await;
            under_way.ended();
            outcome
        });
        let answer = asking.await.inspect_err(|failure| {
            if matches!(failure, Failure::Refused(refusal) if is_lease_missing(&refusal.error)) {
                place.lease.note_missing(lease);
            }
        })?;
        place.lease.may_read(&place.queue);
        let queue = Queue::read(&answer, &place.queue, &place.key).map_err(Failure::Unknown)?;
        let queue = match take {
            Take::KeepPlace => queue.of_our_own(),
            Take::Enqueue | Take::IfQueueEmpty(_) => queue,
        };
        match queue.lease().filter(|lease| *lease != place.lease.id()) {
            Some(former) => follow(&lane, place, former, ends).await.map(|()| queue),
            None => Ok(queue),
        }
    }

    /// When each of these places stood as it was granted; `None` where it does not any more. A key that was
    /// deleted may be there again, behind others, by a take that arrived late.
    pub(crate) async fn which_stand(
        &self,
        places: &[&Arc<ClaimKey>],
        limit: Duration,
    ) -> Result<Vec<Option<i64>>> {
        let link = Arc::clone(&self.background()?.link);
        let stood = |revision, found: &TxnOpResponse| match found {
            TxnOpResponse::Get(found) if !found.kvs().is_empty() => Some(revision),
            _ => None,
        };
        let look = |place: &&Arc<ClaimKey>| place.look();
        Ok(link.ask_for_all(limit, places, look, stood).await?)
    }

    pub(crate) fn known(&self, hold: &HoldId) -> Option<Arc<ClaimKey>> {
        self.places.lock().get(&hold.owner()).cloned()
    }

    /// The place of a hold that is to be given back. Whoever [leaves](Self::leave) it after this knows of it, or
    /// there is none any more.
    pub(crate) fn begin_release(&self, hold: &HoldId) -> Option<Arc<ClaimKey>> {
        let places = self.places.lock();
        let place = places.get(&hold.owner())?;
        place.release();
        Some(Arc::clone(place))
    }

    /// Keeps a place that could not be given back for as long as somebody may ask for it again.
    pub(crate) fn forget_soon(&self, place: &ClaimKey, ttl: Duration) {
        let now = Clock::Boot.now();
        let until: Moment = now.plus(ttl + REPLY_LIMIT * 2);
        place.forget_at(until);
        self.places
            .lock()
            .retain(|_, place| !place.is_forgotten(now));
    }
}

impl Take {
    /// All of it is decided in one go by all members, also when it only looks: it may write, so no
    /// member answers for itself.
    fn transaction(self, place: &ClaimKey, lease: i64) -> Txn {
        let (key, queue) = (&*place.key, place.queue.as_str());
        let below = || GetOptions::new().with_range(end_of(queue));
        let list = |limit| TxnOp::get(queue, Some(below().with_limit(limit)));
        let own = || TxnOp::get(key, None);
        let put = PutOptions::new().with_lease(lease);
        let put = TxnOp::put(key, mode_text(place.mode), Some(put));
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

pub(crate) async fn transact(
    client: Arc<etcd_client::Client>,
    transaction: Txn,
) -> std::result::Result<TxnResponse, etcd_client::Error> {
    let mut client = client.kv_client().max_decoding_message_size(ANSWER_MAX);
    client.txn(transaction).await
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("command", &self.command)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}
