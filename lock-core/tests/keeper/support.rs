//! A lease whose store does what a test tells it to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Claim, Clock, HoldId, Keeper, LeaseStore, Moment, Released, Renewal};
use lock_core::{
    Capabilities, Error, ErrorKind, FencingToken, LockGuard, LockRequest, LossReason, Result,
};

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// What a lease under test answers, and what it was asked.
#[derive(Debug, Default)]
pub(crate) struct ScriptedLease {
    pub(crate) renewal: Mutex<Answer>,
    pub(crate) release: Mutex<Answer>,
    /// How many holds each renewal asked for.
    pub(crate) renewals: Mutex<Vec<usize>>,
    /// For each release, whether its hold was granted.
    pub(crate) releases: Mutex<Vec<bool>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Answer {
    #[default]
    Yes,
    No,
    /// For this time, and no longer.
    For(Duration),
    /// For this time, by a request that was sent then.
    Since(Moment, Duration),
    Error,
    /// The answer comes after this time.
    After(Duration),
    Never,
}

impl ScriptedLease {
    pub(crate) fn renewal_answers(&self, answer: Answer) {
        *self.renewal.lock().expect("no test panics with it") = answer;
    }

    pub(crate) fn release_answers(&self, answer: Answer) {
        *self.release.lock().expect("no test panics with it") = answer;
    }

    pub(crate) fn renewals(&self) -> usize {
        self.renewals.lock().expect("no test panics with it").len()
    }

    pub(crate) fn releases(&self) -> usize {
        self.releases.lock().expect("no test panics with it").len()
    }

    /// Whether the hold that was released last was granted.
    pub(crate) fn last_release_was_of_a_grant(&self) -> bool {
        let releases = self.releases.lock().expect("no test panics with it");
        *releases.last().expect("a release")
    }
}

async fn answer(answer: Answer) -> Result<bool> {
    match answer {
        Answer::Yes | Answer::For(_) | Answer::Since(..) => Ok(true),
        Answer::No => Ok(false),
        Answer::Error => Err(Error::new(ErrorKind::Unavailable, "scripted")),
        Answer::After(delay) => {
            tokio::time::sleep(delay).await;
            Ok(true)
        }
        Answer::Never => std::future::pending().await,
    }
}

#[async_trait]
impl LeaseStore for ScriptedLease {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        self.renewals
            .lock()
            .expect("no test panics with it")
            .push(holds.len());
        let script = *self.renewal.lock().expect("no test panics with it");
        let delay = holds.first().map_or(Duration::ZERO, HoldId::lock_delay);
        let now = Clock::Runtime.now();
        let (sent, ttl) = match script {
            Answer::For(ttl) => (now, ttl),
            Answer::Since(sent, ttl) => (sent, ttl),
            _ => (now, TTL),
        };
        let renewal = if answer(script).await? {
            Renewal::Held {
                sent,
                ttl: ttl + delay,
            }
        } else {
            Renewal::Lost(LossReason::Removed)
        };
        Ok(vec![renewal; holds.len()])
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        self.releases
            .lock()
            .expect("no test panics with it")
            .push(hold.was_granted());
        let script = *self.release.lock().expect("no test panics with it");
        let released = answer(script).await?;
        Ok(if released {
            Released::Released
        } else {
            Released::AlreadyLost
        })
    }
}

/// A keeper on tokio's clock, and the lease it works with.
pub(crate) fn keeper() -> (Arc<ScriptedLease>, Keeper) {
    let lease = Arc::<ScriptedLease>::default();
    let keeper = Keeper::in_process(Capabilities::new("scripted"), lease.clone());
    (lease, keeper)
}

pub(crate) fn claim(keeper: &Keeper, key: &str) -> Claim {
    keeper
        .claim(&LockRequest::exclusive(key).expect("a key").with_ttl(TTL))
        .expect("a claim")
}

/// A hold that the store granted just now.
pub(crate) fn hold(keeper: &Keeper, key: &str) -> LockGuard {
    hold_for(keeper, key, TTL)
}

/// The same with a ttl of its own.
pub(crate) fn hold_for(keeper: &Keeper, key: &str, ttl: Duration) -> LockGuard {
    let request = LockRequest::exclusive(key).expect("a key").with_ttl(ttl);
    let mut claim = keeper.claim(&request).expect("a claim");
    let sent = claim.sending();
    let token = FencingToken::from_grant(1).expect("in range");
    claim.granted(token, sent, ttl).expect("granted in time")
}
