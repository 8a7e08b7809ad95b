//! The requests of a client, and the connections that they travel on.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lock_core::{
    Attempts, Claim, Clock, HoldId, KeeperHome, Moment, OwnerId, Patrol, PerRuntime, Result,
};

use crate::EtcdConfig;
use crate::error::{Failure, is_lease_missing};
use crate::layout::{Layout, end_of, mode_text};
use crate::leases::{Leases, Span};
use crate::link::Link;
use crate::moving::follow;
use crate::names::Names;
use crate::place::{Place, created_then};
use crate::queue::Queue;
use crate::unstoppable::Unstoppable;
use crate::watches::Watches;
use crate::wire::Wire;

/// How long a request waits for its answer, if nothing shorter applies: long enough for members to elect
/// a leader, mostly.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// How large an answer may be: a long queue, or many locks whose names are below this one's.
const ANSWER_MAX: usize = 64 << 20;

pub(crate) struct Client {
    pub(crate) layout: Layout,
    /// One link on each runtime that acquires.
    command: PerRuntime<Link>,
    background: PerRuntime<Background>,
    places: Mutex<HashMap<OwnerId, Arc<Place>>>,
    names: Names,
}

/// What a client has where its holds are kept.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) link: Arc<Link>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) watches: Watches,
}

/// How to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Stands in the queue, whoever is before.
    LineUp,
    /// Writes nothing unless nobody is there.
    IfEmpty,
}

impl Client {
    /// Connects; returns the client and the shortest ttl that the servers give.
    pub(crate) async fn connect(
        config: &EtcdConfig,
        home: &KeeperHome,
    ) -> Result<(Self, Duration)> {
        let layout = Layout::new(&config.namespace);
        let wire = Arc::new(Wire::new(config, &layout)?);
        let patrol = Patrol::new(home.clone());
        let (background_wire, background_patrol) = (Arc::clone(&wire), patrol.clone());
        let client = Self {
            layout,
            command: PerRuntime::new(KeeperHome::caller(), move |runtime| {
                Link::new(Arc::clone(&wire), patrol.clone(), runtime.clone())
            }),
            background: PerRuntime::new(home.clone(), move |runtime| {
                let link = Link::new(
                    Arc::clone(&background_wire),
                    background_patrol.clone(),
                    runtime.clone(),
                );
                Arc::new(Background {
                    leases: Leases::over(Arc::clone(&link)),
                    watches: Watches::over(Arc::clone(&link)),
                    link,
                })
            }),
            places: Mutex::default(),
            names: Names::default(),
        };
        client.lane()?.connection().await?;
        let shortest = client.background()?.leases.granting.shortest().await?;
        Ok((client, shortest))
    }

    /// The command connection of the caller's runtime.
    pub(crate) fn lane(&self) -> Result<Arc<Link>> {
        self.command.here()
    }

    /// That of the runtime that a hold was claimed on, as long as that lives.
    pub(crate) fn lane_of(&self, hold: &HoldId) -> Option<Arc<Link>> {
        self.command.of(hold.runtime())
    }

    /// What there is where holds are kept.
    pub(crate) fn background(&self) -> Result<Arc<Background>> {
        self.background.here()
    }

    /// Finds a lease for a claim, before its first write.
    pub(crate) async fn place(&self, claim: &Claim) -> Result<Arc<Place>> {
        let (hold, loss) = (claim.id(), claim.loss());
        let leases = Arc::clone(&self.background()?.leases);
        let lease = leases.enter(Span::of(hold), hold.owner(), &loss).await?;
        let place = Place::new(&self.layout, &self.names, claim, lease);
        self.places().insert(hold.owner(), Arc::clone(&place));
        Ok(place)
    }

    /// Forgets a claim of which nothing is on the servers.
    pub(crate) fn leave(&self, owner: OwnerId) {
        if let Some(place) = self.places().remove(&owner) {
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
        place: &Arc<Place>,
        take: Take,
        limit: Duration,
    ) -> std::result::Result<Queue, Failure> {
        let ends = Clock::Boot.now().plus(limit);
        let lane = self.lane().map_err(Failure::NotSent)?;
        let (link, asked) = (Arc::clone(&lane), Arc::clone(place));
        let lease = place.lease.id();
        let asking = Unstoppable::new(lane.runtime(), async move {
            let under_way = asked.begin();
            let transaction = take.transaction(&asked, lease);
            let sending = |client| transact(client, transaction.clone());
            let outcome = link.ask_noting(limit, sending, || asked.doubt()).await;
            under_way.ended();
            outcome
        });
        let answer = asking.await.inspect_err(|failure| {
            if matches!(failure, Failure::Refused(error) if is_lease_missing(error)) {
                place.lease.note_missing(lease);
            }
        })?;
        place.lease.may_read(&place.queue);
        let queue = Queue::read(&answer, &place.queue, &place.key).map_err(Failure::Unknown)?;
        match queue.lease().filter(|lease| *lease != place.lease.id()) {
            Some(former) => follow(&lane, place, former, ends).await.map(|()| queue),
            None => Ok(queue),
        }
    }

    /// Whether a waiter may have something to look at: whether its own key or the one that was `created` then
    /// has gone.
    pub(crate) async fn has_changed(
        &self,
        place: &Place,
        (other, created): (&[u8], i64),
        attempts: &Attempts,
    ) -> Result<bool> {
        let keys = || GetOptions::new().with_keys_only();
        let look = Txn::new().and_then([
            TxnOp::get(&*place.key, Some(keys())),
            TxnOp::get(other, Some(created_then(keys(), created))),
        ]);
        let link = Arc::clone(&self.background()?.link);
        let limit = attempts.patience(link.heard());
        let answer = link
            .ask(limit, |client| transact(client, look.clone()))
            .await?;
        Ok(!counts(&answer).all(|count| count > 0))
    }

    /// When each of these places stood as it was granted; `None` where it does not any more. A key that was
    /// deleted may be there again, behind others, by a take that arrived late.
    pub(crate) async fn which_stand(
        &self,
        places: &[&Arc<Place>],
        limit: Duration,
    ) -> Result<Vec<Option<i64>>> {
        let link = Arc::clone(&self.background()?.link);
        let stood = |revision, found: &TxnOpResponse| match found {
            TxnOpResponse::Get(found) if !found.kvs().is_empty() => Some(revision),
            _ => None,
        };
        let look = |place: &&Arc<Place>| place.look();
        Ok(link.ask_for_all(limit, places, look, stood).await?)
    }

    pub(crate) fn known(&self, hold: &HoldId) -> Option<Arc<Place>> {
        self.places().get(&hold.owner()).cloned()
    }

    /// The place of a hold that is to be given back. Whoever [leaves](Self::leave) it after this knows of it, or
    /// there is none any more.
    pub(crate) fn begin_release(&self, hold: &HoldId) -> Option<Arc<Place>> {
        let places = self.places();
        let place = places.get(&hold.owner())?;
        place.release();
        Some(Arc::clone(place))
    }

    /// Keeps a place that could not be given back for as long as somebody may ask for it again.
    pub(crate) fn forget_soon(&self, place: &Place, ttl: Duration) {
        let now = Clock::Boot.now();
        let until: Moment = now.plus(ttl + REPLY_LIMIT * 2);
        place.forget_at(until);
        self.places().retain(|_, place| !place.is_forgotten(now));
    }

    fn places(&self) -> MutexGuard<'_, HashMap<OwnerId, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Take {
    /// All of it is decided in one go by all members, also when it only looks: it may write, so no
    /// member answers for itself.
    fn transaction(self, place: &Place, lease: i64) -> Txn {
        let (key, queue) = (&*place.key, place.queue.as_str());
        let list = || TxnOp::get(queue, Some(GetOptions::new().with_range(end_of(queue))));
        let put = PutOptions::new().with_lease(lease);
        let put = TxnOp::put(key, mode_text(place.mode), Some(put));
        let is_absent = match self {
            Self::LineUp => Compare::create_revision(key, CompareOp::Equal, 0),
            Self::IfEmpty => {
                Compare::create_revision(queue, CompareOp::Equal, 0).with_range(end_of(queue))
            }
        };
        Txn::new()
            .when([is_absent])
            .and_then([put, list()])
            .or_else([list()])
    }
}

pub(crate) async fn transact(
    client: Arc<etcd_client::Client>,
    transaction: Txn,
) -> std::result::Result<TxnResponse, etcd_client::Error> {
    let mut client = client.kv_client().max_decoding_message_size(ANSWER_MAX);
    client.txn(transaction).await
}

/// How many keys each look in a transaction found.
fn counts(answer: &TxnResponse) -> impl Iterator<Item = usize> {
    answer.op_responses().into_iter().map(|found| match found {
        TxnOpResponse::Get(found) => found.kvs().len(),
        _ => 0,
    })
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("command", &self.command)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}
