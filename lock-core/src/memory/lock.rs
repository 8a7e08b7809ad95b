//! [`MemoryLock`]: taking, waiting, and the operator's view.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use tokio::sync::Notify;

use super::store::{CLOCK, ClaimPosition, Store};
use crate::backend::{
    Answer, Ask, Attempt, Claim, Clock, Converted, HoldId, Keeper, LastReply, LeaseStore, Released,
    Renewal, StoreGrant, acquire,
};
use crate::{
    Capabilities, DistributedLock, KeyInfo, LockGuard, LockKey, LockRequest, Result, TTL_RANGE,
    TokenOrder,
};

/// Maximum time for the store's answer, which comes at once.
const REPLY_LIMIT: Duration = Duration::from_secs(1);

/// Locks inside this process: for tests, examples and services with a single instance.
///
/// It supports all three modes, in order of arrival, with leases that expire on tokio's clock: a
/// test with paused time can make a lock get lost. Holds are renewed on the runtime that acquired
/// them.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{DistributedLockExt, LockRequest, LossReason, MemoryLock};
/// use lock_core::DistributedLock;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = MemoryLock::new();
/// let request = LockRequest::exclusive("job")?.with_ttl(Duration::from_secs(10));
/// let stalled = locks.acquire(request).await?.expect("free");
/// // The whole program stands still for longer than the ttl, so nothing can be renewed:
/// tokio::time::advance(Duration::from_secs(11)).await;
/// assert!(!stalled.is_held());
/// assert_eq!(stalled.lost().await, LossReason::Expired);
/// assert!(locks.try_lock("job").await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryLock {
    store: Arc<Store>,
    keeper: Keeper,
}

impl MemoryLock {
    /// Creates a store of its own, shared only by clones and [`new_client`](Self::new_client)s of
    /// this value.
    #[expect(
        clippy::new_without_default,
        reason = "a default that shares nothing would surprise"
    )]
    pub fn new() -> Self {
        Self::on(Arc::default())
    }

    /// Creates another client of the same store, which stands for another process.
    ///
    /// It can be [shut down](DistributedLock::shutdown) separately, while clones are one client.
    #[must_use]
    pub fn new_client(&self) -> Self {
        Self::on(Arc::clone(&self.store))
    }

    /// Returns a client of `namespace` in this process. Clients of one namespace exclude each
    /// other.
    pub fn shared(namespace: &str) -> Self {
        Self::on(Store::shared(namespace))
    }

    fn on(store: Arc<Store>) -> Self {
        let capabilities = Capabilities::new("memory")
            .with_shared()
            .with_permits()
            .with_upgrades()
            .with_slots()
            .with_fairness()
            .with_push()
            .with_inspect()
            .with_lock_delay(*TTL_RANGE.end())
            .with_min_hold(*TTL_RANGE.end())
            .with_tokens(TokenOrder::Process);
        let lease = Arc::new(MemoryLease {
            store: Arc::clone(&store),
        });
        Self {
            store,
            keeper: Keeper::in_process(capabilities, lease),
        }
    }

    /// Removes the holders of `key`, as an operator could on a real store; returns true if there
    /// was one.
    ///
    /// For tests of an application's reaction to a loss.
    pub fn evict(&self, key: &LockKey) -> bool {
        self.store.evict(key)
    }

    /// Returns every claim in the store, holders and waiters, as `key claim`. Empty once all is
    /// released.
    pub fn claims(&self) -> Vec<String> {
        let claims = self.store.claims();
        claims
            .iter()
            .map(|(key, claim)| format!("{key} {claim}"))
            .collect()
    }
}

#[async_trait]
impl DistributedLock for MemoryLock {
    fn capabilities(&self) -> Capabilities {
        self.keeper.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        Some(&self.keeper)
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let take = |request| {
            let lock = self.clone();
            async move {
                let attempt = MemoryAttempt {
                    store: &lock.store,
                    is_queued: false,
                    changed: Arc::default(),
                };
                acquire(&lock.keeper, &request, None, REPLY_LIMIT, attempt).await
            }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}

/// The attempts of one acquisition.
struct MemoryAttempt<'a> {
    store: &'a Store,
    /// True if the claim is in the queue.
    is_queued: bool,
    /// Notified when the claim is granted.
    changed: Arc<Notify>,
}

impl Attempt for MemoryAttempt<'_> {
    async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer> {
        loop {
            let position = match self.is_queued {
                true => self.store.look(ask.claim.id()),
                false => {
                    ask.claim.sending();
                    self.store.enter(ask.claim.id())
                }
            };
            self.is_queued = matches!(position, ClaimPosition::Waiting { .. });
            match position {
                ClaimPosition::Granted(grant) => {
                    if let Some(slot) = grant.slot {
                        ask.claim.set_slot(slot);
                    }
                    return Ok(Answer::Granted {
                        grant: grant.number,
                        sent: grant.at,
                        ttl: ask.claim.id().store_ttl(),
                    });
                }
                ClaimPosition::Waiting {
                    changed,
                    look_again,
                } => {
                    self.changed = changed;
                    return Ok(Answer::Queued {
                        sent: Clock::Boot.now(),
                        next_ask: look_again
                            .map_or(*TTL_RANGE.end(), |moment| moment.since(CLOCK.now())),
                    });
                }
                // The claim was granted and expired before this look: the runtime was not driven.
                ClaimPosition::Absent => {}
            }
        }
    }

    fn last_reply(&self) -> LastReply {
        LastReply {
            at: Clock::Boot.now(),
            latency: Duration::ZERO,
        }
    }

    async fn changed(&mut self) -> Result<()> {
        self.changed.notified().await;
        Ok(())
    }

    async fn leave(&mut self, claim: &mut Claim, _limit: Duration) {
        self.store.release(claim.id());
        claim.refused();
    }
}

#[derive(Debug)]
struct MemoryLease {
    store: Arc<Store>,
}

#[async_trait]
impl LeaseStore for MemoryLease {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        Ok(holds.iter().map(|hold| self.store.renew(hold)).collect())
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        Ok(self.store.release(hold))
    }

    async fn shorten(&self, hold: &HoldId, left: Duration) -> Result<Released> {
        Ok(self.store.shorten(hold, left))
    }

    async fn convert(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        self.store.convert(from, to.id())
    }

    async fn take_together(&self, claims: &mut [Claim]) -> Result<Option<Vec<StoreGrant>>> {
        let ids: Vec<HoldId> = claims
            .iter_mut()
            .map(|claim| {
                claim.sending();
                claim.id().clone()
            })
            .collect();
        let granted = self.store.enter_together(&ids);
        if granted.is_none() {
            claims.iter_mut().for_each(Claim::refused);
        }
        Ok(granted)
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn inspect(&self, key: &LockKey) -> Result<KeyInfo> {
        Ok(self.store.inspect(key))
    }
}
