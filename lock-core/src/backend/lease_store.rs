//! The part of a backend that renews and releases holds.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::{Handle, Id};

use crate::backend::{Claim, Moment};
use crate::inspect::metadata::HolderMetadata;
use crate::{
    Error, ErrorKind, FencingToken, KeyInfo, LockKey, LockRequest, LossReason, Mode, Result,
};

/// Renews and releases the holds of a backend: one per client, for all its holds.
///
/// The [`Keeper`](crate::backend::Keeper) and the [`Claim`](crate::backend::Claim) call it;
/// applications never do.
///
/// ```
/// use lock_core::backend::{HoldId, LeaseStore, Released, Renewal, async_trait};
/// use lock_core::{LossReason, Result};
///
/// #[derive(Debug)]
/// struct EmptyStore;
///
/// #[async_trait]
/// impl LeaseStore for EmptyStore {
///     async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
///         Ok(vec![Renewal::Lost(LossReason::Removed); holds.len()])
///     }
///
///     async fn release(&self, _hold: &HoldId) -> Result<Released> {
///         Ok(Released::AlreadyLost)
///     }
/// }
/// ```
#[async_trait]
pub trait LeaseStore: fmt::Debug + Send + Sync + 'static {
    /// Renews `holds` and returns one [`Renewal`] for each, in their order.
    ///
    /// The keeper repeats failed calls until each hold's deadline, never with two calls at once for
    /// one hold. The implementation must not create a missing claim: it returns [`Renewal::Lost`].
    ///
    /// # Errors
    ///
    /// An error means that the outcome is unknown for all holds: neither success nor loss.
    ///
    /// # Cancel safety
    ///
    /// The keeper drops the future after half the time to the deadline.
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>>;

    /// Releases `hold`, if it is there, and removes it from every queue.
    ///
    /// Must be harmless if the hold was never granted, or if another claim holds the key by now.
    /// May be called again after an error, and from any thread. It must not overtake a take that
    /// is still on its way, unless the hold [was granted](HoldId::was_granted).
    ///
    /// # Errors
    ///
    /// The outcome is unknown. The keeper repeats the release in the background.
    ///
    /// # Cancel safety
    ///
    /// A dropped release is repeated in the background.
    async fn release(&self, hold: &HoldId) -> Result<Released>;

    /// Shortens `hold`, which its holder gave back before the end of its [minimum
    /// hold](HoldId::min_hold), so that the store opens the key after `left`. Default: the store
    /// keeps the key for the time granted last, and the keeper releases it after `left`.
    ///
    /// Returns whether the store still had the hold. An answer after `left` says nothing.
    ///
    /// # Errors
    ///
    /// The outcome is unknown. The keeper repeats the call in the background.
    ///
    /// # Cancel safety
    ///
    /// A dropped call is repeated in the background.
    #[expect(unused_variables, reason = "the default changes nothing")]
    async fn shorten(&self, hold: &HoldId, left: Duration) -> Result<Released> {
        Ok(Released::Released)
    }

    /// Replaces the granted hold `from` by the claim `to` in another mode, in one step: no other
    /// claim is granted in between. Default: [`Unsupported`](ErrorKind::Unsupported).
    ///
    /// The grant of `to` has a token of its own, and its lease begins with this call. If `to` holds
    /// the key already, because an earlier answer was lost, it keeps its token and its lease begins
    /// again. A waiter that the new mode admits must be woken.
    ///
    /// A backend that implements this declares [`Capabilities::upgrades`](crate::Capabilities).
    ///
    /// # Errors
    ///
    /// The outcome is unknown if the error is retryable. The keeper repeats the call until the hold
    /// would expire.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, both holds are released in the background.
    #[expect(unused_variables, reason = "the default supports no conversion")]
    async fn convert(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "changes of the mode are not supported by this backend: release the lock first",
        ))
    }

    /// Takes the keys of `claims` in one request, without waiting: all of them, or none. Default:
    /// `None`, so that the caller takes one key after the other.
    ///
    /// All claims are exclusive, and their keys differ. Implementations call
    /// [`Claim::sending`] on each of them before the request.
    ///
    /// `None` also means that a key is held or kept for a waiter, or that there are too many keys.
    /// Nothing was taken then, and the claims [are disarmed](Claim::refused).
    ///
    /// # Errors
    ///
    /// The outcome is unknown, and the claims are armed.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point: armed claims are released in the background.
    async fn take_together(&self, claims: &mut [Claim]) -> Result<Option<Vec<StoreGrant>>> {
        let _ = claims;
        Ok(None)
    }

    /// Asks the store for one answer, for [`Health::latency`](crate::Health::latency). Default:
    /// [`Unsupported`](ErrorKind::Unsupported).
    ///
    /// The answer should come only from a store that could grant locks at the moment. The keeper
    /// waits 2.5 seconds at most.
    ///
    /// # Errors
    ///
    /// The error that a request without a wait would get now.
    ///
    /// # Cancel safety
    ///
    /// The keeper may drop the future.
    async fn ping(&self) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "ping is not supported by this backend: try a lock",
        ))
    }

    /// Reads the holders of `key`, for [`inspect`](crate::DistributedLockExt::inspect). Default:
    /// [`Unsupported`](ErrorKind::Unsupported).
    ///
    /// It changes nothing on the store. A backend with it [declares
    /// it](crate::Capabilities::inspect). The keeper waits 2.5 seconds at most.
    ///
    /// # Errors
    ///
    /// The error that a request without a wait would get now.
    ///
    /// # Cancel safety
    ///
    /// The keeper may drop the future.
    async fn inspect(&self, key: &LockKey) -> Result<KeyInfo> {
        let _ = key;
        Err(no_inspect())
    }
}

/// Returns the error of a backend that does not tell who holds a key.
pub(crate) fn no_inspect() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "inspect is not supported by this backend: look at the store with its own tools",
    )
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The hold is valid for `ttl` from `sent` on, [reserve](HoldId::reserve) included.
    ///
    /// The answer with the latest `sent` counts, whether it extends or shortens the hold; an answer
    /// to an earlier request changes nothing. Deadline, next renewal and hand-off follow from it.
    Held {
        /// When the confirmed request was sent; with a shared keep-alive, perhaps an earlier one.
        sent: Moment,
        /// The ttl that the store granted now, which may be less than requested or than before.
        ttl: Duration,
    },
    /// The hold has ended.
    Lost(LossReason),
    /// The store gave no answer for this hold: neither success nor loss.
    Unknown,
}

/// The outcome of a release that the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The store removed the hold.
    Released,
    /// The store found no claim of this hold, since it was lost. A repeated release whose first
    /// answer got lost looks the same.
    AlreadyLost,
}

/// One of several grants that a store gave in one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreGrant {
    /// The grant number, from which the fencing token is made.
    pub grant: u64,
    /// When the request was sent. Validity counts from this moment.
    pub sent: Moment,
    /// The time from `sent` for which the store keeps the key, [reserve](HoldId::reserve) included.
    pub ttl: Duration,
}

/// The outcome of a conversion that the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Converted {
    /// The new claim holds the key for `ttl`, [reserve](HoldId::reserve) included.
    Granted {
        /// The token of the new grant, greater than every earlier one of the key.
        token: FencingToken,
        /// The granted ttl.
        ttl: Duration,
    },
    /// Other holders are in the way, and nothing has changed.
    Refused,
    /// The store has neither the hold nor the new claim.
    Lost,
}

/// The identity of one claim on the store, created before its first write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldId {
    key: LockKey,
    mode: Mode,
    ttl: Duration,
    lock_delay: Duration,
    min_hold: Duration,
    claim: ClaimId,
    runtime: Id,
    granted: GrantedFlag,
    own_grant: bool,
    label: Option<Arc<str>>,
}

impl HoldId {
    pub(crate) fn new(request: &LockRequest, runtime: Id) -> Result<Self> {
        Ok(Self {
            key: request.key.clone(),
            mode: request.mode,
            ttl: request.ttl(),
            lock_delay: request.lock_delay(),
            min_hold: request.min_hold(),
            claim: ClaimId::random()?,
            runtime,
            granted: GrantedFlag::default(),
            own_grant: request.needs_own_grant(),
            label: request.label.clone(),
        })
    }

    /// Returns the id of a member of this hold, which is never sent to the store.
    pub(crate) fn member(&self, number: u64) -> Self {
        let mut id = self.clone();
        id.claim.0 = id.claim.0.wrapping_add(u128::from(number));
        id
    }

    /// Returns a new id for this hold in `mode`, with `left` of its minimum hold.
    pub(crate) fn converted(&self, mode: Mode, left: Duration, runtime: Id) -> Result<Self> {
        Ok(Self {
            mode,
            min_hold: left,
            claim: ClaimId::random()?,
            runtime,
            granted: GrantedFlag::default(),
            ..self.clone()
        })
    }

    /// Returns this id for a renewal of a hold with `left` of its minimum hold.
    pub(crate) fn renewing(&self, left: Duration) -> Self {
        let mut id = self.clone();
        id.min_hold = left;
        id
    }

    /// Returns the locked key.
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// Returns the mode of the lock.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the time that a guard is valid after each take and renewal.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns the time that the key stays closed after a loss.
    pub fn lock_delay(&self) -> Duration {
        self.lock_delay
    }

    /// Returns the time that the store keeps the key at least: at a take the minimum hold, at a
    /// renewal what is left of it.
    pub fn min_hold(&self) -> Duration {
        self.min_hold
    }

    /// Returns the ttl to request from the store at each take and renewal: ttl and lock delay, or
    /// the minimum hold if that is longer.
    pub fn store_ttl(&self) -> Duration {
        (self.ttl + self.lock_delay).max(self.min_hold)
    }

    /// Returns the part of the [store's ttl](Self::store_ttl) that a guard does not count on.
    pub fn reserve(&self) -> Duration {
        self.store_ttl() - self.ttl
    }

    /// Returns the claim id, which is new for every claim on the store.
    pub fn claim(&self) -> ClaimId {
        self.claim
    }

    /// Returns the runtime that made the claim, for backends with one connection per runtime.
    ///
    /// A clean-up that must not overtake its take travels on the take's connection. The runtime may
    /// be gone by now, and another runtime may have its id.
    pub fn runtime(&self) -> Id {
        self.runtime
    }

    /// Returns the text about this holder to store with the claim, for
    /// [`HolderInfo::with_metadata`](crate::HolderInfo::with_metadata): host, pid, the present time
    /// and the label.
    ///
    /// It is one line of less than 250 bytes and starts with a letter. It differs from call to
    /// call, so a store must never compare it.
    pub fn metadata(&self) -> String {
        HolderMetadata::of_this_process(self.mode, self.label()).to_text()
    }

    /// Returns the label of the request.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns true if the hold may be neither handed on nor shared inside the process.
    pub(crate) fn has_own_grant(&self) -> bool {
        self.own_grant
    }

    /// Returns the label without copying its text.
    pub(crate) fn shared_label(&self) -> Option<Arc<str>> {
        self.label.clone()
    }

    /// Returns true on the runtime that made the claim, which therefore is being driven.
    pub fn is_on_its_runtime(&self) -> bool {
        Handle::try_current().is_ok_and(|here| here.id() == self.runtime)
    }

    /// Returns true if the store granted the hold and no take of it is unanswered.
    ///
    /// A release then can overtake no take and may travel on any connection. The flag is set on the
    /// id that [`LeaseStore::release`] gets; clones made before the grant do not have it.
    pub fn was_granted(&self) -> bool {
        self.granted.get()
    }

    /// Records that the store granted the hold and answered every take.
    pub(crate) fn set_granted(&self) {
        self.granted.0.store(true, Ordering::Release);
    }
}

/// A flag that equality and hash of a [`HoldId`] ignore. A clone copies the present value.
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

/// The 128-bit random id of one claim on the store.
///
/// It is new for every claim, so that no client renews or releases a claim of another process or of
/// another acquisition. A grant that is handed on or shared inside a process keeps its claim id;
/// its guards differ in their tokens.
///
/// Displayed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(u128);

impl ClaimId {
    /// The lowest id in sort order.
    pub(crate) const FIRST: Self = Self(0);

    /// Draws from the operating system each time, so that a forked process does not repeat its
    /// parent's.
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
