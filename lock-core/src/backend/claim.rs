//! A claim from before its first write until its grant or release: the one place of cancel safety.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{HoldId, Keeper, KeeperRuntime, LossSender, Moment};
use crate::hold::Hold;
use crate::hold::validity::renewal_due;
use crate::keeper::at_runtime::RuntimeKeeper;
use crate::{Error, ErrorKind, FencingToken, LockGuard, LockRequest, LossReason, Mode, Result};

/// An acquisition in progress.
///
/// A backend calls [`sending`](Self::sending) before each request, which arms the claim. After the
/// store's answer it calls [`granted`](Self::granted), which makes the guard, or
/// [`refused`](Self::refused), which disarms the claim. An armed claim may be dropped by an error,
/// a timeout, a panic or a cancelled future. The drop releases in the background what the
/// unanswered request may have won.
///
/// ```
/// use lock_core::backend::Keeper;
/// use lock_core::{FencingToken, LockGuard, LockRequest, Result};
///
/// # async fn ask_the_store(_: &lock_core::backend::HoldId) -> Result<Option<u64>> { Ok(None) }
/// async fn take(keeper: &Keeper, request: &LockRequest) -> Result<Option<LockGuard>> {
///     let mut claim = keeper.claim(request)?;
///     let sent = claim.sending();
///     let Some(grant) = ask_the_store(claim.id()).await? else {
///         claim.refused();
///         return Ok(None);
///     };
///     let ttl = claim.id().store_ttl();
///     Ok(claim.granted(FencingToken::from_grant(grant)?, sent, ttl))
/// }
/// ```
#[derive(Debug)]
#[must_use = "dropping a claim gives up the acquisition"]
pub struct Claim {
    hold: Arc<Hold>,
    keeper: Arc<RuntimeKeeper>,
    max_hold: Option<Duration>,
    armed: bool,
    /// True if a take was resent because an earlier take, which may still arrive, got no answer.
    resent: bool,
}

impl Keeper {
    /// Starts an acquisition: checks the request and draws a new claim id.
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) for a mode, ttl, lock delay or minimum hold
    ///   that the backend does not support, and for a request with an owner.
    /// - [`Config`](crate::ErrorKind::Config) outside a Tokio runtime.
    /// - [`Closed`](crate::ErrorKind::Closed) after [`shutdown`](Self::shutdown).
    pub fn claim(&self, request: &LockRequest) -> Result<Claim> {
        self.inner.gate.check()?;
        self.inner.capabilities.check(request)?;
        if request.owner.is_some() {
            let message = "owners are not supported by a backend that acquires without Keeper::acquire: put HandOff before it";
            return Err(Error::new(ErrorKind::Unsupported, message).with_key(&request.key));
        }
        let keeper = self.at_runtimes.current(&self.inner)?;
        let id = HoldId::new(request, KeeperRuntime::caller().handle()?.id())?;
        let hold = Hold::new(id, self.inner.clock, Arc::<RuntimeKeeper>::clone(&keeper));
        Ok(Claim {
            hold: Arc::new(hold),
            keeper,
            max_hold: request.max_hold,
            armed: false,
            resent: false,
        })
    }
}

impl Claim {
    /// Returns the id of this claim on the store.
    pub fn id(&self) -> &HoldId {
        &self.hold.id
    }

    /// Arms the claim for a request, and returns the moment from which its answer counts.
    ///
    /// Call it just before the request is sent.
    pub fn sending(&mut self) -> Moment {
        self.resent |= self.armed;
        self.armed = true;
        self.keeper.client.clock.now()
    }

    /// Disarms the claim after the store answered that the claim is not there.
    ///
    /// The drop still releases if an earlier request of the claim was never answered, since that
    /// request may yet arrive.
    pub fn refused(&mut self) {
        self.armed = false;
    }

    /// Notes the slot of a permit that the store has granted. Call it before
    /// [`granted`](Self::granted).
    pub fn set_slot(&mut self, slot: u32) {
        self.hold.set_slot(slot);
    }

    /// Makes the claim in `mode` that is to replace the hold of `guard`.
    pub(crate) fn replacing(guard: &LockGuard, mode: Mode) -> Result<Self> {
        let (hold, keeper) = (guard.hold(), guard.keeper());
        let runtime = KeeperRuntime::caller().handle()?.id();
        let left = hold.renewing().min_hold();
        let id = hold.id.converted(mode, left, runtime)?;
        let clock = keeper.client.clock;
        Ok(Self {
            hold: Arc::new(Hold::new(id, clock, Arc::<RuntimeKeeper>::clone(keeper))),
            keeper: Arc::clone(keeper),
            max_hold: None,
            armed: false,
            resent: false,
        })
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Sets the maximum time of the guard.
    pub(crate) fn set_max_hold(&mut self, max_hold: Option<Duration>) {
        self.max_hold = max_hold;
    }

    /// Returns true if a grant of `ttl` from `sent` on comes too late.
    pub(crate) fn is_late(&self, sent: Moment, ttl: Duration) -> bool {
        let ttl = self.hold.usable(&self.hold.id, ttl);
        self.keeper.client.clock.now() > renewal_due(sent, ttl)
    }

    /// Returns true if the claim may be on the store.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Makes the guard of a grant of `ttl` from `sent` on, [reserve](HoldId::reserve) included.
    ///
    /// `None` if a third of the guard's ttl has passed already: the hold would need a renewal
    /// before its first use, or has expired. The hold is then released in the background; try again
    /// with a new claim while there is time. Also `None` if the client was shut down meanwhile.
    pub fn granted(self, token: FencingToken, sent: Moment, ttl: Duration) -> Option<LockGuard> {
        if !self.resent {
            self.hold.id.set_granted();
        }
        if self.is_late(sent, ttl) {
            return None;
        }
        let ttl = self.hold.usable(&self.hold.id, ttl);
        let mut claim = self;
        let keeper = Arc::clone(&claim.keeper);
        keeper.keep(&claim.hold, (sent, ttl), claim.max_hold);
        if keeper.client.gate.is_closed() {
            // The shutdown may have missed this hold, which was registered after it began.
            claim.hold.end(LossReason::Closed);
            return None;
        }
        (claim.armed, claim.resent) = (false, false);
        Some(LockGuard::new(Arc::clone(&claim.hold), keeper, token))
    }

    /// Returns the handle by which the backend reports a loss that it detects.
    pub fn loss(&self) -> LossSender {
        LossSender::new(Arc::downgrade(&self.hold))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.armed || self.resent {
            let releasing = self.keeper.client.releasing(&self.hold);
            self.keeper
                .release_in_background(&self.hold, releasing, None::<()>);
        }
    }
}
