//! The request of an application: key, mode, ttl and wait.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::Moment;
use crate::backend::followers::Followers;
use crate::{Error, ErrorKind, LockKey, Result};

/// The ttl of a request that names none, and of a client configured without one: 30 seconds.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The ttls that any backend accepts: 50 milliseconds to 24 hours. A backend may narrow it, see
/// [`Capabilities::ttl`](crate::Capabilities::ttl).
///
/// With a shorter one the end of a hold could not be told before its store opens the key: timers
/// have steps of a millisecond, and a busy machine runs them later than that.
pub const TTL_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(24 * 60 * 60);

/// The mode of a lock: which holders may have a key at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder alone.
    Exclusive,
    /// Any number of shared holders, but no exclusive one and no permit.
    Shared,
    /// A semaphore: this claim is let in while fewer than `of` permits are held.
    ///
    /// Each claim counts against its own `of`, so that the limit can be changed by changing the
    /// callers, one after the other. Until all have changed, on stores that keep no queue (Redis,
    /// leases on MySQL) one of a smaller number waits for as long as those of a greater one keep
    /// the key too full for it.
    Permit {
        /// The number of permits that may be held at once, this one included.
        of: NonZeroU32,
    },
}

impl Mode {
    /// One of `of` permits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when `of` is zero, since such a claim could never be granted.
    pub fn permit(of: u32) -> Result<Self> {
        let of = NonZeroU32::new(of).ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "a permit of 0 can never be granted: ask for one of at least 1",
            )
        })?;
        Ok(Self::Permit { of })
    }

    /// Returns true if two claims of these modes can never hold the same key at once.
    ///
    /// Two permits are not in conflict as such: how many there may be depends on their `of`.
    pub fn conflicts_with(self, other: Self) -> bool {
        !matches!(
            (self, other),
            (Self::Shared, Self::Shared) | (Self::Permit { .. }, Self::Permit { .. })
        )
    }
}

/// The time that an acquisition waits for a key that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: one attempt, one round trip.
    No,
    /// Until this instant of tokio's clock.
    Until(Instant),
    /// Until the key is free.
    Forever,
}

impl Wait {
    /// Waits at most `limit` from now; a limit beyond the clock's range waits for ever.
    pub fn within(limit: Duration) -> Self {
        match Instant::now().checked_add(limit) {
            Some(until) => Self::Until(until),
            None => Self::Forever,
        }
    }

    /// When the wait ends: `None` for one that has no end of its own.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::No => Some(Instant::now()),
            Self::Until(until) => Some(until),
            Self::Forever => None,
        }
    }
}

/// One acquisition as the application asks for it.
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
    /// The resource.
    pub key: LockKey,
    /// The mode: which holders may have the key at the same time.
    pub mode: Mode,
    /// The time that the hold survives without a renewal. `None`: as the client is configured, else
    /// [`DEFAULT_TTL`]. Range: [`TTL_RANGE`], or less where the backend says so.
    ///
    /// Renewal is automatic at a third of it, so it bounds how long a *crashed* holder blocks
    /// others, not how long a live one may work.
    pub ttl: Option<Duration>,
    /// The time to wait. `None`: as the client is configured, else for ever.
    pub wait: Option<Wait>,
    /// The time that it may be held, however well it is renewed. Default: without a limit.
    ///
    /// A holder that is stuck, or a guard that was leaked, is renewed for ever as long as its
    /// process lives. With a limit the guard is lost when it is reached, for
    /// [`TooLong`](crate::LossReason::TooLong), and the lock is given back, after its lock delay if
    /// it has one.
    pub max_hold: Option<Duration>,
    /// The time that the key stays closed after its guard was lost. `None`: as the client is
    /// configured, else zero. Range: from zero, and at most 24 hours together with the ttl, or less
    /// where the backend
    /// [says so](crate::Capabilities::longest_with_delay).
    ///
    /// Requests that a holder had sent before it was lost may still be on its way to the resource.
    /// The delay (Consul has it by the same name) gives them time to arrive, or to be given up,
    /// before the next holder begins; it makes a collision rarer, and only a
    /// [`FencingToken`](crate::FencingToken) that the resource checks rules it out.
    ///
    /// The store keeps the key for the ttl and the delay together, of which the guard counts on the
    /// ttl only. So the key opens no earlier than this long after the guard's end, by the store's
    /// clock, however late a lost guard is dropped. Whatever is released, dropped while it is held,
    /// or given up before it was granted opens at once, and so does what was
    /// [removed](crate::LossReason::Removed) on the store: nothing is left there to keep it closed.
    /// A crashed holder blocks others for its ttl and the delay; on etcd and ZooKeeper a crashed
    /// waiter does, too.
    pub lock_delay: Option<Duration>,
    /// Since when its waiter has waited, if that was before it was asked for.
    pub(crate) arrived: Option<Moment>,
    /// The waiters behind it in this process.
    pub(crate) followers: Option<Followers>,
}

impl LockRequest {
    /// A request for `key` in `mode` with the client's ttl and wait.
    pub fn new(key: LockKey, mode: Mode) -> Self {
        Self {
            key,
            mode,
            ttl: None,
            wait: None,
            max_hold: None,
            lock_delay: None,
            arrived: None,
            followers: None,
        }
    }

    /// A request for the one exclusive hold of `key`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] when `key` is empty or over 255 bytes.
    pub fn exclusive(key: &str) -> Result<Self> {
        Ok(Self::new(LockKey::new(key)?, Mode::Exclusive))
    }

    /// A request to share `key` with other readers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] when `key` is empty or over 255 bytes.
    pub fn shared(key: &str) -> Result<Self> {
        Ok(Self::new(LockKey::new(key)?, Mode::Shared))
    }

    /// A request for one of `of` permits of `key`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] when `key` is empty or over 255 bytes, [`ErrorKind::Config`] when
    /// `of` is zero.
    pub fn permit(key: &str, of: u32) -> Result<Self> {
        Ok(Self::new(LockKey::new(key)?, Mode::permit(of)?))
    }

    /// Sets how long the hold survives without a renewal.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long it may be held, from its grant on; any duration above zero.
    #[must_use]
    pub fn holding_at_most(mut self, limit: Duration) -> Self {
        self.max_hold = Some(limit);
        self
    }

    /// Sets how long the key stays closed after a loss.
    #[must_use]
    pub fn with_lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = Some(delay);
        self
    }

    /// Sets how to wait.
    #[must_use]
    pub fn with_wait(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Waits at most `limit` from now.
    #[must_use]
    pub fn waiting_at_most(self, limit: Duration) -> Self {
        self.with_wait(Wait::within(limit))
    }

    /// Does not wait: one attempt, one round trip.
    #[must_use]
    pub fn without_waiting(self) -> Self {
        self.with_wait(Wait::No)
    }

    /// The ttl that applies when the client brought none of its own.
    pub fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(DEFAULT_TTL)
    }

    /// The lock delay that applies when the client brought none of its own.
    pub fn lock_delay(&self) -> Duration {
        self.lock_delay.unwrap_or_default()
    }

    /// The wait that applies when the client brought none of its own.
    pub fn wait(&self) -> Wait {
        self.wait.unwrap_or(Wait::Forever)
    }
}
