//! The capabilities that a backend declares, and that the conformance kit proves.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::backend::HumanDuration;
use crate::{Error, ErrorKind, LockRequest, Mode, Result, TTL_RANGE};

/// The promise about the growth of fencing tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenOrder {
    /// Always, as long as the store's data lives: the number comes from the store's own log.
    Always,
    /// Also after the store lost its memory, as long as the store's clock was not set back behind
    /// an earlier grant.
    ServerClock,
    /// Within the life of the process that holds the store.
    Process,
}

/// The abilities and promises of a backend.
///
/// A declared capability is proved by the conformance kit; one that is not declared answers
/// [`ErrorKind::Unsupported`] instead of being emulated weakly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The backend's name in errors and logs, for example `redis`.
    pub backend: &'static str,
    /// True if [`Mode::Shared`] can be had. Default: no.
    pub shared: bool,
    /// True if [`Mode::Permit`] can be had. Default: no.
    pub permits: bool,
    /// True if claims of different processes are granted in the order they arrived, in each mode.
    /// Default: no. QueuedBehind [`HandOff`](crate::HandOff) they are not, whatever the store does:
    /// processes take turns there.
    pub fair: bool,
    /// True if the store wakes waiters by itself, so that no waiter polls for a release. Default:
    /// no.
    pub push: bool,
    /// The promise about the growth of fencing tokens. Default: [`TokenOrder::Process`].
    pub tokens: TokenOrder,
    /// The ttls this backend can give. Default: [`TTL_RANGE`].
    pub ttl: RangeInclusive<Duration>,
    /// The time that a ttl and a [lock delay](LockRequest::lock_delay) may be together. Default:
    /// zero, so that there is no lock delay.
    ///
    /// A backend has it that asks its store for
    /// [`HoldId::store_ttl`](crate::backend::HoldId::store_ttl), if the store opens a key no
    /// earlier than that, whatever becomes of its holder. One whose holds share a lease gives back
    /// what is left of one no earlier than
    /// [`LossSender::is_over`](crate::backend::LossSender::is_over) says.
    pub longest_with_delay: Duration,
    /// Where there is no lock delay: what to do about that, for the error of a request that asks
    /// for one. Default: to leave it out.
    pub no_lock_delay: &'static str,
}

impl Capabilities {
    /// A backend with exclusive locks and none of the rest.
    pub fn new(backend: &'static str) -> Self {
        Self {
            backend,
            shared: false,
            permits: false,
            fair: false,
            push: false,
            tokens: TokenOrder::Process,
            ttl: TTL_RANGE,
            longest_with_delay: Duration::ZERO,
            no_lock_delay: "leave it out, or choose another backend",
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

    /// Declares how far the growth of tokens is promised.
    #[must_use]
    pub fn with_tokens(mut self, tokens: TokenOrder) -> Self {
        self.tokens = tokens;
        self
    }

    /// Declares the ttls that can be had.
    #[must_use]
    pub fn with_ttl(mut self, ttl: RangeInclusive<Duration>) -> Self {
        self.ttl = ttl;
        self
    }

    /// Declares lock delays, up to `longest` together with the ttl.
    #[must_use]
    pub fn with_lock_delay(mut self, longest: Duration) -> Self {
        self.longest_with_delay = longest;
        self
    }

    /// Says why there is no lock delay, and what to do about it.
    #[must_use]
    pub fn without_lock_delay(mut self, because: &'static str) -> Self {
        self.longest_with_delay = Duration::ZERO;
        self.no_lock_delay = because;
        self
    }

    /// Logs at INFO that a client has connected to `server`, of this `version` where it is known,
    /// and what it lacks of what a backend may have. Backends call it once a connect.
    pub fn log_connected(&self, server: &str, version: Option<&str>) {
        let lacks = [
            (self.shared, "shared locks"),
            (self.permits, "permits"),
            (self.push, "push"),
            (!self.longest_with_delay.is_zero(), "lock delays"),
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

    /// Refuses a request for what this backend cannot give.
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
            Mode::Permit { .. } if !self.permits => {
                return Err(unsupported(format!(
                    "permits are not supported by {}: use one key a permit, or choose another backend",
                    self.backend
                )));
            }
            Mode::Exclusive | Mode::Shared | Mode::Permit { .. } => {}
        }
        if request.max_hold == Some(Duration::ZERO) {
            let message = "a lock that may not be held at all is none: choose a longer max_hold, or leave it out";
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
            .map_err(|error| error.with_key(&request.key))
    }

    /// Refuses a lock delay that this backend cannot give, or not behind this `ttl`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] when there is none to be had, or the two are longer than
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
