//! An acquisition from before its first write until it is granted or given up: the one place where
//! cancel safety is written.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{HoldId, Keeper, KeeperRuntime, LossSender, Moment};
use crate::hold::Hold;
use crate::hold::validity::renewal_due;
use crate::keeper::at_runtime::RuntimeKeeper;
use crate::{FencingToken, LockGuard, LockRequest, LossReason, Result};

/// An acquisition under way.
///
/// A backend announces each request by [`sending`](Self::sending), which arms the claim; the
/// store's answer is either [`granted`](Self::granted), which makes the guard, or
/// [`refused`](Self::refused), which disarms it. Dropping an armed claim, be it by an error, a
/// timeout, a panic or a cancelled future, releases in the background whatever the unanswered
/// request may have won.
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
    /// True if a take was sent again because the one before has no answer, which may still
    /// arrive.
    resent: bool,
}

impl Keeper {
    /// Starts an acquisition: checks the request and gives it a claim id of its own.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a mode or ttl that the backend cannot
    /// give, [`Config`](crate::ErrorKind::Config) outside a Tokio runtime,
    /// [`Closed`](crate::ErrorKind::Closed) after [`shutdown`](Self::shutdown).
    pub fn claim(&self, request: &LockRequest) -> Result<Claim> {
        self.inner.gate.check()?;
        self.inner.capabilities.check(request)?;
        let keeper = self.at_runtimes.here(&self.inner)?;
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
    /// Returns what identifies this acquisition on the store.
    pub fn id(&self) -> &HoldId {
        &self.hold.id
    }

    /// Arms the claim for a request that is about to be sent, and returns the present moment: the
    /// one from which the request's answer counts.
    pub fn sending(&mut self) -> Moment {
        self.resent |= self.armed;
        self.armed = true;
        self.keeper.client.clock.now()
    }

    /// Disarms the claim: the store has answered that nothing of it is there.
    ///
    /// Not if an earlier request of the claim was never answered, since that one may still arrive.
    pub fn refused(&mut self) {
        self.armed = false;
    }

    /// Returns true if something of the claim may be on the store.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Makes the guard of a grant: the store holds the key for `ttl` from `sent` on, of which the
    /// last part is its lock delay, if it has one.
    ///
    /// `None` when the answer came so late that a third of the guard's ttl is gone: its holder
    /// would have to be renewed before it did anything, or has expired. What was won is then
    /// released in the background; try again with a new claim while there is time. Also `None` when
    /// the client was shut down meanwhile.
    pub fn granted(self, token: FencingToken, sent: Moment, ttl: Duration) -> Option<LockGuard> {
        if !self.resent {
            self.hold.id.set_granted();
        }
        let ttl = self.hold.usable(ttl);
        if self.keeper.client.clock.now() > renewal_due(sent, ttl) {
            return None;
        }
        let mut claim = self;
        let keeper = Arc::clone(&claim.keeper);
        keeper.keep(&claim.hold, (sent, ttl), claim.max_hold);
        if keeper.client.gate.is_closed() {
            // The shutdown may have passed by before the hold was there to be ended.
            claim.hold.end(LossReason::Closed);
            return None;
        }
        (claim.armed, claim.resent) = (false, false);
        Some(LockGuard::new(Arc::clone(&claim.hold), keeper, token))
    }

    /// By this the backend reports a loss that it learns of by itself.
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
