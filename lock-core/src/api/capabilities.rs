//! The capabilities that a backend declares and the conformance kit checks.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::backend::HumanDuration;
use crate::{Error, ErrorKind, LockRequest, Mode, Result, TTL_RANGE};

/// The condition under which fencing tokens are promised to grow.
///
/// ```
/// use lock_core::{DistributedLock, MemoryLock, TokenOrder};
///
/// assert_eq!(MemoryLock::new().capabilities().tokens, TokenOrder::Process);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenOrder {
    /// As long as the store's data lives: the number comes from the store's own log.
    Always,
    /// Also after the store lost its data, unless the store's clock was set back behind an earlier
    /// grant.
    ServerClock,
    /// As long as the process that holds the store lives.
    Process,
}

/// The features and promises of a backend.
///
/// The conformance kit checks each declared feature. Requests for any other fail with
/// [`ErrorKind::Unsupported`]; a backend never emulates a feature with weaker guarantees.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{Capabilities, TokenOrder};
///
/// let capabilities = Capabilities::new("filesystem")
///     .with_shared()
///     .with_tokens(TokenOrder::ServerClock)
///     .with_ttl(Duration::from_secs(1)..=Duration::from_secs(3600));
/// assert!(!capabilities.permits && !capabilities.push);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The backend's name in errors and logs, for example `redis`.
    pub backend: &'static str,
    /// True if the backend supports [`Mode::Shared`]. Default: false.
    pub shared: bool,
    /// True if the backend supports [`Mode::Permit`]. Default: false.
    pub permits: bool,
    /// True if the backend supports [`Mode::Upgradeable`],
    /// [`downgrade`](crate::LockGuard::downgrade) and
    /// [`try_upgrade`](crate::LockGuard::try_upgrade). Default: false.
    pub upgrades: bool,
    /// True if each permit has a [slot](crate::LockGuard::slot). Default: false.
    pub slots: bool,
    /// True if claims of different processes are granted in order of arrival, in each mode.
    /// Default: false. Always false behind [`HandOff`](crate::HandOff), where processes take turns.
    pub fair: bool,
    /// True if the store wakes waiters, so that no waiter polls for a release. Default: false.
    pub push: bool,
    /// True if the backend tells who holds a key: see [`inspect`]. Default: false.
    ///
    /// [`inspect`]: crate::DistributedLockExt::inspect
    pub inspect: bool,
    /// The condition under which tokens grow. Default: [`TokenOrder::Process`].
    pub tokens: TokenOrder,
    /// The ttls that this backend accepts. Default: [`TTL_RANGE`].
    pub ttl: RangeInclusive<Duration>,
    /// Maximum sum of a ttl and its [lock delay](LockRequest::lock_delay). Default: zero, which
    /// means that lock delays are not supported.
    ///
    /// A backend supports lock delays if it asks its store for
    /// [`HoldId::store_ttl`](crate::backend::HoldId::store_ttl) and the store opens no key earlier
    /// than that, even if the holder crashes. A backend whose holds share a lease must not remove a
    /// lost hold before [`LossSender::is_over`](crate::backend::LossSender::is_over) returns true.
    pub longest_with_delay: Duration,
    /// Maximum [minimum hold](LockRequest::min_hold). Default: zero, which means that minimum holds
    /// are not supported.
    ///
    /// A backend supports them under the conditions of lock delays.
    pub longest_min_hold: Duration,
    /// Advice for the error of a request with a minimum hold, where they are not supported.
    /// Default: to leave it out.
    pub no_min_hold: &'static str,
    /// Advice for the error of a request with a lock delay, where delays are not supported.
    /// Default: to leave it out.
    pub no_lock_delay: &'static str,
}

const LEAVE_IT_OUT: &str = "leave it out, or choose another backend";

impl Capabilities {
    /// Creates the capabilities of a backend that supports exclusive locks only.
    pub fn new(backend: &'static str) -> Self {
        Self {
            backend,
            shared: false,
            permits: false,
            upgrades: false,
            slots: false,
            fair: false,
            push: false,
            inspect: false,
            tokens: TokenOrder::Process,
            ttl: TTL_RANGE,
            longest_with_delay: Duration::ZERO,
            longest_min_hold: Duration::ZERO,
            no_min_hold: LEAVE_IT_OUT,
            no_lock_delay: LEAVE_IT_OUT,
        }
    }

    /// Declares [`Mode::Shared`].
    #[must_use]
    pub fn with_shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Declares [`Mode::Permit`].
    #[must_use]
    pub fn with_permits(mut self) -> Self {
        self.permits = true;
        self
    }

    /// Declares [`Mode::Upgradeable`] and changes of a hold's mode.
    #[must_use]
    pub fn with_upgrades(mut self) -> Self {
        self.upgrades = true;
        self
    }

    /// Declares that each permit has a slot.
    #[must_use]
    pub fn with_slots(mut self) -> Self {
        self.slots = true;
        self
    }

    /// Declares that claims are granted in order of arrival.
    #[must_use]
    pub fn with_fairness(mut self) -> Self {
        self.fair = true;
        self
    }

    /// Declares that a release wakes waiters without polling.
    #[must_use]
    pub fn with_push(mut self) -> Self {
        self.push = true;
        self
    }

    /// Declares that the backend tells who holds a key.
    #[must_use]
    pub fn with_inspect(mut self) -> Self {
        self.inspect = true;
        self
    }

    /// Declares the condition under which tokens grow.
    #[must_use]
    pub fn with_tokens(mut self, tokens: TokenOrder) -> Self {
        self.tokens = tokens;
        self
    }

    /// Declares the ttls that the backend accepts.
    #[must_use]
    pub fn with_ttl(mut self, ttl: RangeInclusive<Duration>) -> Self {
        self.ttl = ttl;
        self
    }

    /// Declares lock delays, with `longest` as the maximum sum of a ttl and its delay.
    #[must_use]
    pub fn with_lock_delay(mut self, longest: Duration) -> Self {
        self.longest_with_delay = longest;
        self
    }

    /// Declares that lock delays are not supported, with the advice for the error.
    #[must_use]
    pub fn without_lock_delay(mut self, because: &'static str) -> Self {
        self.longest_with_delay = Duration::ZERO;
        self.no_lock_delay = because;
        self
    }

    /// Declares minimum holds of at most `longest`.
    #[must_use]
    pub fn with_min_hold(mut self, longest: Duration) -> Self {
        self.longest_min_hold = longest;
        self
    }

    /// Declares that minimum holds are not supported, with the advice for the error.
    #[must_use]
    pub fn without_min_hold(mut self, because: &'static str) -> Self {
        self.longest_min_hold = Duration::ZERO;
        self.no_min_hold = because;
        self
    }

    /// Logs at INFO that the client connected to `server`, its version, and the missing features.
    ///
    /// Backends call this method once per connect.
    pub fn log_connected(&self, server: &str, version: Option<&str>) {
        let lacks = [
            (self.shared, "shared locks"),
            (self.permits, "permits"),
            (self.upgrades, "upgrades"),
            (self.slots, "slots"),
            (self.push, "push"),
            (self.inspect, "inspect"),
            (!self.longest_with_delay.is_zero(), "lock delays"),
            (!self.longest_min_hold.is_zero(), "minimum holds"),
        ];
        let without: Vec<&str> = lacks
            .iter()
            .filter(|(has, _)| !has)
            .map(|(_, what)| *what)
            .collect();
        tracing::info!(
            backend = self.backend,
            server,
            version = version.unwrap_or("unknown"),
            without = without.join(", "),
            ttl_min = %HumanDuration(*self.ttl.start()),
            "{}: connected to {server}",
            self.backend
        );
    }

    /// Rejects a request that this backend does not support.
    pub(crate) fn check(&self, request: &LockRequest) -> Result<()> {
        let unsupported = |what: String| {
            Error::new(ErrorKind::Unsupported, what)
                .with_backend(self.backend)
                .with_key(&request.key)
        };
        match request.mode {
            Mode::Shared if !self.shared => {
                return Err(unsupported(format!(
                    "shared locks are not supported by {}: take it exclusively, or choose another backend",
                    self.backend
                )));
            }
            Mode::Upgradeable if !self.upgrades => {
                return Err(unsupported(format!(
                    "upgradeable locks are not supported by {}: take it exclusively, or choose another backend",
                    self.backend
                )));
            }
            Mode::Permit { .. } if !self.permits => {
                return Err(unsupported(format!(
                    "permits are not supported by {}: use one key a permit, or choose another backend",
                    self.backend
                )));
            }
            Mode::Exclusive | Mode::Shared | Mode::Upgradeable | Mode::Permit { .. } => {}
        }
        if request.max_hold == Some(Duration::ZERO) {
            let message =
                "max_hold 0 s ends every hold at once: choose a longer one, or leave it out";
            return Err(Error::new(ErrorKind::Config, message).with_key(&request.key));
        }
        let ttl = request.ttl();
        if !self.ttl.contains(&ttl) {
            return Err(unsupported(format!(
                "ttl {} is out of range for {}: choose one from {} to {}",
                HumanDuration(ttl),
                self.backend,
                HumanDuration(*self.ttl.start()),
                HumanDuration(*self.ttl.end())
            )));
        }
        self.check_lock_delay(ttl, request.lock_delay())
            .and_then(|()| self.check_min_hold(request.min_hold()))
            .map_err(|error| error.with_key(&request.key))
    }

    /// Rejects a minimum hold that this backend does not support.
    fn check_min_hold(&self, minimum: Duration) -> Result<()> {
        let longest = self.longest_min_hold;
        if minimum <= longest {
            return Ok(());
        }
        let (minimum, backend, advice) = (HumanDuration(minimum), self.backend, self.no_min_hold);
        let message = if longest.is_zero() {
            format!("minimum hold {minimum} is not supported by {backend}: {advice}")
        } else {
            let longest = HumanDuration(longest);
            format!(
                "minimum hold {minimum} is out of range for {backend}: it may be {longest} at most"
            )
        };
        Err(Error::new(ErrorKind::Unsupported, message).with_backend(backend))
    }

    /// Rejects a lock delay that this backend does not support together with `ttl`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if the backend has no lock delays, or if the sum exceeds
    /// [`longest_with_delay`](Self::longest_with_delay).
    pub fn check_lock_delay(&self, ttl: Duration, delay: Duration) -> Result<()> {
        let longest = self.longest_with_delay;
        let message = if delay.is_zero() || delay <= longest.saturating_sub(ttl) {
            return Ok(());
        } else if longest.is_zero() {
            format!(
                "lock delay {} is not supported by {}: {}",
                HumanDuration(delay),
                self.backend,
                self.no_lock_delay
            )
        } else {
            format!(
                "lock delay {} with ttl {} is out of range for {}: together they may be {} at most",
                HumanDuration(delay),
                HumanDuration(ttl),
                self.backend,
                HumanDuration(longest)
            )
        };
        Err(Error::new(ErrorKind::Unsupported, message).with_backend(self.backend))
    }
}
