//! The half of a backend that keeps holds and gives them back.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Id;

use crate::backend::Moment;
use crate::{Error, ErrorKind, LockKey, LockRequest, LossReason, Mode, Result};

/// Renews and releases the holds of a backend: one per client, for all its holds.
///
/// The other half of [`DistributedLock`](crate::DistributedLock). The
/// [`Keeper`](crate::backend::Keeper) and the [`Claim`](crate::backend::Claim) call it;
/// applications never do.
#[async_trait]
pub trait LeaseStore: fmt::Debug + Send + Sync + 'static {
    /// Renews `holds` and answers one [`Renewal`] for each, in their order.
    ///
    /// Called again after an error until each hold's deadline; never twice at once for one hold.
    /// It must not create what is missing: a hold that is gone is [`Renewal::Lost`].
    ///
    /// # Errors
    ///
    /// An error means that the outcome is unknown for all of them. It is neither success nor loss.
    ///
    /// # Cancel safety
    ///
    /// The keeper drops the future when it takes longer than half the time that is left.
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>>;

    /// Gives `hold` back, if it is there, and takes it out of every queue it waits in.
    ///
    /// Harmless when it was never granted, and when someone else holds the key by now. May be
    /// called again after an error, and from any thread. A take may still be on its way, and must
    /// not be overtaken, unless the hold [was granted](HoldId::was_granted).
    ///
    /// # Errors
    ///
    /// An error means that the outcome is unknown. The keeper tries again in the background.
    ///
    /// # Cancel safety
    ///
    /// A dropped release is repeated in the background.
    async fn release(&self, hold: &HoldId) -> Result<Released>;
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Still ours, for `ttl` from `sent` on, of which the last part is its lock delay.
    ///
    /// The answer with the latest `sent` counts, be it shorter or longer than those before; one
    /// that was sent earlier changes nothing. Deadline, next renewal and hand-over follow.
    Held {
        /// When the request was sent that the store confirmed; with a shared keep-alive, an earlier
        /// one.
        sent: Moment,
        /// The ttl that the store has granted now, which may be less than was asked for, or than
        /// before.
        ttl: Duration,
    },
    /// Not ours any more.
    Lost(LossReason),
    /// The store did not say, for this one hold: neither success nor loss.
    Unknown,
}

/// The outcome of a release that the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The hold was there and is gone.
    Released,
    /// There was nothing of ours to release: it had been lost. Or the store had done it before, and
    /// its answer did not get through: a release that is repeated cannot tell the two apart.
    AlreadyLost,
}

/// Identifies one claim on the store, from before its first write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldId {
    key: LockKey,
    mode: Mode,
    ttl: Duration,
    lock_delay: Duration,
    claim: ClaimId,
    runtime: Id,
    granted: GrantedFlag,
}

impl HoldId {
    pub(crate) fn new(request: &LockRequest, runtime: Id) -> Result<Self> {
        Ok(Self {
            key: request.key.clone(),
            mode: request.mode,
            ttl: request.ttl(),
            lock_delay: request.lock_delay(),
            claim: ClaimId::random()?,
            runtime,
            granted: GrantedFlag::default(),
        })
    }

    /// Returns the id of a member of this hold. The store never sees it.
    pub(crate) fn member(&self, number: u64) -> Self {
        let mut id = self.clone();
        id.claim.0 = id.claim.0.wrapping_add(u128::from(number));
        id
    }

    /// The resource.
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// Returns who may hold it at the same time.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns how long its guard is to be valid from each take and renewal on.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns how long the store is to keep the key closed after that, unless it is given back.
    pub fn lock_delay(&self) -> Duration {
        self.lock_delay
    }

    /// Returns what to ask the store for at each take and renewal: the ttl, and the lock delay
    /// behind it.
    pub fn store_ttl(&self) -> Duration {
        self.ttl + self.lock_delay
    }

    /// Returns who asks: new for every claim on the store.
    pub fn claim(&self) -> ClaimId {
        self.claim
    }

    /// Which runtime claimed it, for backends that keep a connection on each: a clean-up that has
    /// to stay behind its take travels on the same connection. The runtime may be gone by now, and
    /// another one may have its number.
    pub fn runtime(&self) -> Id {
        self.runtime
    }

    /// Returns true if the store has granted the hold and no take of it is unanswered, so that its
    /// release can overtake none and may travel on any connection.
    ///
    /// True of the id that [`LeaseStore::release`] is given; one that was cloned before the grant
    /// does not learn of it.
    pub fn was_granted(&self) -> bool {
        self.granted.get()
    }

    /// Notes that the store has granted it and that every take was answered.
    pub(crate) fn set_granted(&self) {
        self.granted.0.store(true, Ordering::Release);
    }
}

/// A flag that is no part of what identifies a hold. A clone has the value of the moment.
#[derive(Debug, Default)]
struct GrantedFlag(AtomicBool);

impl GrantedFlag {
    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Clone for GrantedFlag {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.get()))
    }
}

impl PartialEq for GrantedFlag {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for GrantedFlag {}

impl Hash for GrantedFlag {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// 128 random bits, new for every claim on the store, so that no client releases or renews what is
/// not theirs: not another process, not another claim of the same process. A grant that is handed
/// on or shared inside of a process keeps its claim id; its guards differ in their tokens.
///
/// Displayed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(u128);

impl ClaimId {
    /// Before all others in their order.
    pub(crate) const FIRST: Self = Self(0);

    /// Asks the operating system each time, so that a forked process does not repeat its parent.
    fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|source| {
            Error::new(
                ErrorKind::Backend,
                "the operating system gave no random numbers for a claim id",
            )
            .with_source(source)
        })?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({self})")
    }
}
