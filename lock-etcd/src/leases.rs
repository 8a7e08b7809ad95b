//! The leases of a client: one for each ttl and lock delay, granted when it is first needed.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::LeaseGrantOptions;
use lock_core::{Clock, Error, ErrorKind, HoldId, LossSender, OwnerId, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{BACKEND, Failure, is_lease_known, lease_ended, runtime_gone, unexpected};
use crate::keep_alive::KeepAlive;
use crate::link::Link;
use crate::shared_lease::SharedLease;
use crate::tending::{revoke, tend};

/// How long a grant may take.
const GRANT_LIMIT: Duration = Duration::from_secs(2);

/// How often a claim asks for a lease that is retired before the claim stands under it.
const ATTEMPTS: u32 = 3;

/// What claims have in common that share a lease, in whole seconds: the ttl of their guards, rounded down so
/// that the crash of a holder blocks nobody for longer than it asked for, and the lock delay behind it, rounded
/// up so that the key stays closed for no less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    ttl: u64,
    lock_delay: u64,
}

impl Span {
    pub(crate) fn of(hold: &HoldId) -> Self {
        let delay = hold.lock_delay();
        Self {
            ttl: hold.ttl().as_secs(),
            lock_delay: delay.as_secs() + u64::from(delay.subsec_nanos() > 0),
        }
    }

    /// How long the servers are to keep the lease.
    fn lease(self) -> Duration {
        Duration::from_secs(self.ttl + self.lock_delay)
    }
}

/// The leases that are kept alive in one place.
pub(crate) struct Leases {
    link: Arc<Link>,
    keep_alive: KeepAlive,
    /// Those that new claims may stand under.
    shared: Mutex<HashMap<Span, Arc<SharedLease>>>,
    /// Who asks for a new one; it ends with the answer.
    granting: Mutex<HashMap<Span, watch::Receiver<()>>>,
    /// Twice how many were asked for.
    asked: AtomicU64,
    /// Its end tells those who tend leases that nobody needs them any more.
    in_use: watch::Sender<()>,
}

/// Who asks for a new lease.
enum Granting {
    Ourselves(JoinHandle<Result<()>>),
    SomebodyElse(watch::Receiver<()>),
}

impl Leases {
    pub(crate) fn over(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self {
            keep_alive: KeepAlive::over(Arc::clone(&link)),
            link,
            shared: Mutex::default(),
            granting: Mutex::default(),
            asked: AtomicU64::new(0),
            in_use: watch::Sender::new(()),
        })
    }

    /// The shortest ttl that the servers give, in whole seconds; found out by asking for less.
    pub(crate) async fn shortest(&self) -> Result<Duration> {
        let grant = |client: Arc<etcd_client::Client>| async move {
            client.lease_client().grant(1, None).await
        };
        let granted = self.link.ask(GRANT_LIMIT, grant).await?;
        revoke(&self.link, granted.id(), GRANT_LIMIT).await;
        seconds(granted.ttl())
    }

    /// Lets the claim of `owner` stand under a lease for `span`.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        span: Span,
        owner: OwnerId,
        loss: &LossSender,
    ) -> Result<Arc<SharedLease>> {
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            let Some(lease) = self.open_for(span) else {
                self.ask_for(span, owner).await?;
                continue;
            };
            // It may have been retired just now.
            if lease.enter(owner, loss.clone()) {
                return Ok(lease);
            }
            attempts += 1;
        }
        Err(lease_ended())
    }

    /// Has a new lease granted, or waits until somebody else has, for better or worse.
    async fn ask_for(self: &Arc<Self>, span: Span, owner: OwnerId) -> Result<()> {
        match self.granting(span, owner) {
            Granting::Ourselves(granting) => granting.await.unwrap_or_else(|_| Err(runtime_gone())),
            Granting::SomebodyElse(mut granting) => {
                // It only ends.
                while granting.changed().await.is_ok() {}
                Ok(())
            }
        }
    }

    /// In a task of its own, so that whoever gives up leaves no lease behind that nobody knows, and whoever
    /// is not polled keeps nobody waiting.
    fn granting(self: &Arc<Self>, span: Span, owner: OwnerId) -> Granting {
        let mut granting = self.granting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(somebody) = granting.get(&span).filter(|one| one.has_changed().is_ok()) {
            return Granting::SomebodyElse(somebody.clone());
        }
        let (asking, end) = watch::channel(());
        granting.retain(|_, one| one.has_changed().is_ok());
        granting.insert(span, end);
        let (leases, id) = (Arc::clone(self), self.next_id(owner));
        Granting::Ourselves(self.link.runtime().spawn(async move {
            let _asking = asking;
            match leases.open_for(span) {
                Some(_) => Ok(()),
                None => leases.grant(span, id).await,
            }
        }))
    }

    /// The lease that claims of this span can stand under, if there is one.
    fn open_for(&self, span: Span) -> Option<Arc<SharedLease>> {
        let lease = self.lock().get(&span).cloned()?;
        (!lease.is_retired()).then_some(lease)
    }

    /// An id that nobody else has, so that a lease can be revoked whose grant was never confirmed.
    fn next_id(&self, owner: OwnerId) -> i64 {
        let random = u64::from_str_radix(&owner.to_string()[..16], 16).unwrap_or_default();
        let number = self.asked.fetch_add(2, Ordering::Relaxed);
        // Zero would let the server choose.
        (random.wrapping_add(number) >> 1).cast_signed().max(1)
    }

    async fn grant(&self, span: Span, id: i64) -> Result<()> {
        let asked = span.lease();
        let wanted = i64::try_from(asked.as_secs()).unwrap_or(i64::MAX);
        let sent = Clock::Boot.now();
        let grant = |client: Arc<etcd_client::Client>| async move {
            let options = LeaseGrantOptions::new().with_id(id);
            client.lease_client().grant(wanted, Some(options)).await
        };
        let granted = match self.link.ask(GRANT_LIMIT, grant).await {
            Ok(granted) => seconds(granted.ttl())?,
            // An answer was lost on the way, and the repetition found what it had granted. How long it
            // lives is not known, but that it was asked for no earlier than this.
            Err(Failure::Refused(error)) if is_lease_known(&error) => asked,
            Err(failure) => {
                let link = Arc::clone(&self.link);
                link.runtime().clone().spawn(async move {
                    revoke(&link, id, asked).await;
                });
                return Err(failure.into());
            }
        };
        if granted > asked {
            revoke(&self.link, id, GRANT_LIMIT).await;
            return Err(too_short(asked, granted));
        }
        let lock_delay = Duration::from_secs(span.lock_delay);
        let lease = SharedLease::new(id, self.keep_alive.clone(), sent, granted, lock_delay);
        let mut shared = self.lock();
        shared.retain(|_, lease| !lease.is_retired());
        shared.insert(span, Arc::clone(&lease));
        drop(shared);
        let tending = tend(Arc::clone(&self.link), lease, self.in_use.subscribe());
        self.link.runtime().spawn(tending);
        Ok(())
    }

    /// Lets no claim stand under those there are, so that they end with the claims they have.
    pub(crate) fn retire(&self) {
        for (_, lease) in self.lock().drain() {
            lease.retire();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Span, Arc<SharedLease>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(ttl: i64) -> Result<Duration> {
    match u64::try_from(ttl) {
        Ok(ttl) if ttl > 0 => Ok(Duration::from_secs(ttl)),
        Ok(_) | Err(_) => Err(unexpected("a lease without a ttl")),
    }
}

fn too_short(ttl: Duration, shortest: Duration) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a ttl of {ttl:?} cannot be had here: choose one of at least {shortest:?}, which the servers' election timeout demands"),
    )
    .with_backend(BACKEND)
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().values()).finish()
    }
}
