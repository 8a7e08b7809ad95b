//! The request for a lock: key, mode, ttl and wait.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::Moment;
use crate::backend::followers::Followers;
use crate::inspect::label::check_label;
use crate::{Error, ErrorKind, LockKey, Owner, Result};

/// The ttl if neither the request nor the client's configuration has one: 30 seconds.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The range of ttls: 50 milliseconds to 24 hours.
///
/// A backend may narrow it, see [`Capabilities::ttl`](crate::Capabilities::ttl). With a shorter
/// ttl, a guard could end after its store opens the key. Timers have a resolution of one
/// millisecond, and a busy machine runs them late.
pub const TTL_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(24 * 60 * 60);

/// The mode of a lock: which holders may have a key at the same time.
///
/// ```
/// use lock_core::Mode;
///
/// assert!(Mode::Exclusive.conflicts_with(Mode::Shared));
/// assert!(!Mode::Shared.conflicts_with(Mode::Shared));
/// assert!(!Mode::Upgradeable.conflicts_with(Mode::Shared));
/// assert!(Mode::Upgradeable.conflicts_with(Mode::Upgradeable));
/// assert!(Mode::permit(0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A single holder.
    Exclusive,
    /// Any number of shared holders and one upgradeable holder, but no exclusive holder and no
    /// permit.
    Shared,
    /// A single holder beside any number of shared holders. It can become exclusive without a gap:
    /// see [`LockGuard::try_upgrade`](crate::LockGuard::try_upgrade).
    Upgradeable,
    /// A semaphore: the claim is granted while fewer than `of` permits are held.
    ///
    /// Each claim counts against its own `of`, so callers can change the limit one after the other.
    /// During such a change, on stores without a queue (Redis, leases on MySQL), claims with a
    /// greater `of` can starve claims with a smaller one.
    Permit {
        /// Maximum number of permits held at once, including this one. At least 1.
        of: NonZeroU32,
    },
}

impl Mode {
    /// Creates the mode for one of `of` permits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if `of` is zero: such a claim could never be granted.
    pub fn permit(of: u32) -> Result<Self> {
        let of = NonZeroU32::new(of).ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "a permit of 0 can never be granted: ask for one of at least 1",
            )
        })?;
        Ok(Self::Permit { of })
    }

    /// Returns true if claims of these two modes can never hold the same key at once.
    ///
    /// Two permits do not conflict as such: their number is limited by `of`.
    pub fn conflicts_with(self, other: Self) -> bool {
        !matches!(
            (self, other),
            (Self::Shared, Self::Shared | Self::Upgradeable)
                | (Self::Upgradeable, Self::Shared)
                | (Self::Permit { .. }, Self::Permit { .. })
        )
    }
}

/// The time that an acquisition waits for a held key.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{LockRequest, Wait};
///
/// let request = LockRequest::exclusive("coupon/42")?
///     .with_wait(Wait::within(Duration::from_secs(2)));
/// assert!(matches!(request.wait(), Wait::Until(_)));
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// No wait: one attempt.
    No,
    /// Until this instant of tokio's clock.
    Until(Instant),
    /// Until the key is free.
    Forever,
}

impl Wait {
    /// Waits at most `limit` from now; for ever if `limit` exceeds the clock's range.
    pub fn within(limit: Duration) -> Self {
        match Instant::now().checked_add(limit) {
            Some(until) => Self::Until(until),
            None => Self::Forever,
        }
    }

    /// Returns the end of the wait; `None` for [`Forever`](Self::Forever).
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::No => Some(Instant::now()),
            Self::Until(until) => Some(until),
            Self::Forever => None,
        }
    }
}

/// A request for one lock.
///
/// ```
/// use std::time::Duration;
/// use lock_core::LockRequest;
///
/// # fn main() -> lock_core::Result<()> {
/// let request = LockRequest::exclusive("coupon/42")?
///     .with_ttl(Duration::from_secs(10))
///     .waiting_at_most(Duration::from_secs(2));
/// # let _ = request;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockRequest {
    /// The key to lock.
    pub key: LockKey,
    /// The mode of the lock.
    pub mode: Mode,
    /// Time that the hold survives without a renewal. Default: the client's ttl, else
    /// [`DEFAULT_TTL`]. Range: [`TTL_RANGE`], or less where the backend narrows it.
    ///
    /// The keeper renews at a third of the ttl. So the ttl bounds how long a *crashed* holder
    /// blocks the key, not the work of a live holder.
    pub ttl: Option<Duration>,
    /// Maximum wait. Default: the client's setting, else for ever.
    pub wait: Option<Wait>,
    /// Maximum time that the lock may be held, even if it is renewed. Default: no limit. Above
    /// zero.
    ///
    /// Without a limit, a stuck holder or a leaked guard is renewed for as long as its process
    /// lives. At the limit the guard is lost with [`TooLong`](crate::LossReason::TooLong), and the
    /// lock is released, after its lock delay if it has one.
    pub max_hold: Option<Duration>,
    /// Time that the key stays closed after its guard was lost. Default: the client's setting, else
    /// zero. Range: 0 to 24 hours together with the ttl, or less where the backend [narrows
    /// it](crate::Capabilities::longest_with_delay).
    ///
    /// Requests that a holder sent before its loss may still be on their way to the resource. The
    /// delay (as in Consul) gives them time to arrive or fail before the next holder begins. It
    /// makes a collision rarer; only a [`FencingToken`](crate::FencingToken) that the resource
    /// checks excludes one.
    ///
    /// The store keeps the key for ttl plus delay, of which the guard counts on the ttl only. So
    /// the key opens no earlier than this delay after the guard's end, by the store's clock, even
    /// if the lost guard is dropped late. A key opens at once if its guard is released or dropped
    /// while held, or if its request is given up before the grant. It also opens at once if its
    /// claim was [removed](crate::LossReason::Removed) on the store. A crashed holder blocks the
    /// key for ttl plus delay; on etcd and ZooKeeper so does a crashed waiter.
    pub lock_delay: Option<Duration>,
    /// Minimum time from the grant that the store keeps the key closed. Default: zero. Range: 0 to
    /// 24 hours, or less where the backend [narrows it](crate::Capabilities::longest_min_hold).
    ///
    /// Nobody gets the key before that, in this process or another. This holds after a release, a
    /// drop, a loss and a crash. A release ends the guard at once and leaves the key closed for the
    /// rest of the time. A job that takes a millisecond therefore runs once, not once on each
    /// instance: see [`once`](crate::DistributedLockExt::once).
    ///
    /// A crashed holder blocks the key for its ttl, or for the minimum hold if that is longer: for
    /// what is left of it, or on stores with shared leases (etcd, ZooKeeper) for the whole of it. A
    /// request that is given up before its grant leaves the key open, as does a claim that was
    /// [removed](crate::LossReason::Removed) on the store. Holds with a minimum are neither handed
    /// on nor shared inside a process.
    pub min_hold: Option<Duration>,
    /// The owner, whose requests for a key that it holds enter without asking the store. Default:
    /// none, so that each request is a holder of its own.
    pub owner: Option<Owner>,
    /// The label of the holder, of which [`labelled`](Self::labelled) checked the length.
    pub(crate) label: Option<Arc<str>>,
    /// True if the guard needs a grant of its own, which no other guard had or shares.
    pub(crate) own_grant: bool,
    /// The waiter's arrival, if it arrived before this request was made.
    pub(crate) arrived: Option<Moment>,
    /// The waiters queued behind this request in this process.
    pub(crate) followers: Option<Followers>,
}

impl LockRequest {
    /// Creates a request for `key` in `mode` with the client's defaults.
    pub fn new(key: LockKey, mode: Mode) -> Self {
        Self {
            key,
            mode,
            ttl: None,
            wait: None,
            max_hold: None,
            lock_delay: None,
            min_hold: None,
            owner: None,
            label: None,
            own_grant: false,
            arrived: None,
            followers: None,
        }
    }

    /// Creates a request for the exclusive lock of `key`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if `key` is empty or over 255 bytes.
    pub fn exclusive(key: impl AsRef<str>) -> Result<Self> {
        Ok(Self::new(LockKey::new(key)?, Mode::Exclusive))
    }

    /// Creates a request for a shared lock of `key`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if `key` is empty or over 255 bytes.
    pub fn shared(key: impl AsRef<str>) -> Result<Self> {
        Ok(Self::new(LockKey::new(key)?, Mode::Shared))
    }

    /// Creates a request for the upgradeable lock of `key`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if `key` is empty or over 255 bytes.
    pub fn upgradeable(key: impl AsRef<str>) -> Result<Self> {
        Ok(Self::new(LockKey::new(key)?, Mode::Upgradeable))
    }

    /// Creates a request for one of `of` permits of `key`.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidKey`] if `key` is empty or over 255 bytes.
    /// - [`ErrorKind::Config`] if `of` is zero.
    pub fn permit(key: impl AsRef<str>, of: u32) -> Result<Self> {
        Ok(Self::new(LockKey::new(key)?, Mode::permit(of)?))
    }

    /// Sets the time that the hold survives without a renewal.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the maximum time from the grant that the lock may be held. Above zero.
    #[must_use]
    pub fn holding_at_most(mut self, limit: Duration) -> Self {
        self.max_hold = Some(limit);
        self
    }

    /// Sets the minimum time from the grant that the key stays closed, also after a release.
    #[must_use]
    pub fn holding_at_least(mut self, minimum: Duration) -> Self {
        self.min_hold = Some(minimum);
        self
    }

    /// Sets the time that the key stays closed after a loss.
    #[must_use]
    pub fn with_lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = Some(delay);
        self
    }

    /// Sets the owner.
    #[must_use]
    pub fn for_owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Sets the label under which [`inspect`](crate::DistributedLockExt::inspect) shows the holder.
    /// Default: none. It is stored with the lock, so write no secret into it.
    ///
    /// Inside a process, a hold is handed on and shared only between requests with the same label.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if it is empty, has more than 64 bytes, or contains control
    /// characters.
    pub fn labelled(mut self, label: impl AsRef<str>) -> Result<Self> {
        let label = label.as_ref();
        check_label(label).map_err(|error| error.with_key(&self.key))?;
        self.label = Some(label.into());
        Ok(self)
    }

    /// Sets the wait.
    #[must_use]
    pub fn with_wait(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets a wait of at most `limit` from now.
    #[must_use]
    pub fn waiting_at_most(self, limit: Duration) -> Self {
        self.with_wait(Wait::within(limit))
    }

    /// Disables waiting: one attempt.
    #[must_use]
    pub fn without_waiting(self) -> Self {
        self.with_wait(Wait::No)
    }

    /// Returns the ttl of this request, else [`DEFAULT_TTL`].
    pub fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(DEFAULT_TTL)
    }

    /// Returns the lock delay of this request, else zero.
    pub fn lock_delay(&self) -> Duration {
        self.lock_delay.unwrap_or_default()
    }

    /// Returns the minimum hold of this request, else zero.
    pub fn min_hold(&self) -> Duration {
        self.min_hold.unwrap_or_default()
    }

    /// Returns the label of this request.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns true if the hold may be neither handed on nor shared inside the process.
    pub(crate) fn needs_own_grant(&self) -> bool {
        self.own_grant || !self.min_hold().is_zero()
    }

    /// Returns the wait of this request, else [`Wait::Forever`].
    pub fn wait(&self) -> Wait {
        self.wait.unwrap_or(Wait::Forever)
    }
}
