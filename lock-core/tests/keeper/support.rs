//! A lease store with scripted answers, and a keeper on it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Claim, Clock, HoldId, Keeper, LeaseStore, Moment, Released, Renewal};
use lock_core::{
    Capabilities, Error, ErrorKind, FencingToken, LockGuard, LockRequest, LossReason, Result,
};

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A lease store that returns scripted answers and records its requests.
#[derive(Debug, Default)]
pub(crate) struct ScriptedLease {
    pub(crate) renewal: Mutex<Answer>,
    pub(crate) release: Mutex<Answer>,
    ping: Mutex<Answer>,
    /// Number of holds in each renewal.
    pub(crate) renewals: Mutex<Vec<usize>>,
    /// The ttl that each renewal asked the store for, of its first hold.
    asked: Mutex<Vec<Duration>>,
    /// The time that each shortening left.
    shortened: Mutex<Vec<Duration>>,
    /// For each release, true if its hold was granted.
    pub(crate) releases: Mutex<Vec<bool>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Answer {
    #[default]
    Yes,
    No,
    /// Grants this ttl.
    For(Duration),
    /// Grants this ttl, for a request that was sent at this time.
    Since(Moment, Duration),
    Error,
    /// Succeeds after this time.
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

    pub(crate) fn ping_answers(&self, answer: Answer) {
        *self.ping.lock().expect("no test panics with it") = answer;
    }

    pub(crate) fn renewals(&self) -> usize {
        self.renewals.lock().expect("no test panics with it").len()
    }

    pub(crate) fn releases(&self) -> usize {
        self.releases.lock().expect("no test panics with it").len()
    }

    pub(crate) fn asked(&self) -> Vec<Duration> {
        self.asked.lock().expect("no test panics with it").clone()
    }

    pub(crate) fn shortened(&self) -> Vec<Duration> {
        let shortened = self.shortened.lock().expect("no test panics with it");
        shortened.clone()
    }

    /// Returns true if the hold of the last release was granted.
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

async fn released(script: Answer) -> Result<Released> {
    Ok(match answer(script).await? {
        true => Released::Released,
        false => Released::AlreadyLost,
    })
}

#[async_trait]
impl LeaseStore for ScriptedLease {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        self.renewals
            .lock()
            .expect("no test panics with it")
            .push(holds.len());
        let script = *self.renewal.lock().expect("no test panics with it");
        let reserve = holds.first().map_or(Duration::ZERO, HoldId::reserve);
        self.asked
            .lock()
            .expect("no test panics with it")
            .extend(holds.first().map(HoldId::store_ttl));
        let now = Clock::Runtime.now();
        let (sent, ttl) = match script {
            Answer::For(ttl) => (now, ttl),
            Answer::Since(sent, ttl) => (sent, ttl),
            _ => (now, TTL),
        };
        let renewal = if answer(script).await? {
            Renewal::Held {
                sent,
                ttl: ttl + reserve,
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
        released(script).await
    }

    async fn ping(&self) -> Result<()> {
        let script = *self.ping.lock().expect("no test panics with it");
        answer(script).await.map(drop)
    }

    async fn shorten(&self, _hold: &HoldId, left: Duration) -> Result<Released> {
        self.shortened
            .lock()
            .expect("no test panics with it")
            .push(left);
        let script = *self.release.lock().expect("no test panics with it");
        released(script).await
    }
}

/// Returns a keeper on tokio's clock, and its lease store.
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

/// Returns a hold that the store granted just now.
pub(crate) fn hold(keeper: &Keeper, key: &str) -> LockGuard {
    hold_for(keeper, key, TTL)
}

/// Like [`hold`], but with the given ttl.
pub(crate) fn hold_for(keeper: &Keeper, key: &str, ttl: Duration) -> LockGuard {
    let request = LockRequest::exclusive(key).expect("a key").with_ttl(ttl);
    let mut claim = keeper.claim(&request).expect("a claim");
    let sent = claim.sending();
    let token = FencingToken::from_grant(1).expect("in range");
    claim.granted(token, sent, ttl).expect("granted in time")
}
