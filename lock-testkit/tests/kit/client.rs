//! A client of the shelf: takes and waits, correct or with a fault.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Claim, HoldId, Keeper, KeeperRuntime};
use lock_core::{
    Capabilities, DistributedLock, Error, ErrorKind, FencingToken, KeyInfo, LockGuard, LockKey,
    LockRequest, Result, TTL_RANGE, Wait,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::fault::Fault;
use crate::lease::ShelfLease;
use crate::rules::{CLOCK, Grant, Standing};
use crate::server::Server;

/// The time limit of a request that does not wait.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_millis(600);

const TTL_RANGE_TAKEN: RangeInclusive<Duration> =
    Duration::from_millis(500)..=Duration::from_secs(60 * 60);

const LONGEST_TAKEN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct ShelfLock {
    server: Arc<Server>,
    keeper: Keeper,
    declared: Capabilities,
    pub(crate) number: u64,
    door: Mutex<()>,
    waits_for: std::sync::Mutex<Option<LockKey>>,
    alive: Arc<AtomicBool>,
}

impl ShelfLock {
    pub(crate) fn new(server: Arc<Server>, declared: Capabilities) -> Self {
        static CLIENTS: AtomicU64 = AtomicU64::new(1);

        let (fault, alive) = (server.fault, Arc::new(AtomicBool::new(true)));
        let lease = Arc::new(ShelfLease {
            server: Arc::clone(&server),
            client_lives: Arc::clone(&alive),
        });
        let keeper_runtime = match fault {
            Fault::BelievesInLongerTtl => KeeperRuntime::caller(),
            _ => KeeperRuntime::thread().expect("a thread"),
        };
        let checked = match fault {
            Fault::TakesFewTtls => declared.clone().with_ttl(TTL_RANGE_TAKEN),
            Fault::TakesAnyTtl => declared.clone().with_ttl(Duration::ZERO..=Duration::MAX),
            Fault::TakesAnyDelay => declared.clone().with_lock_delay(Duration::MAX),
            Fault::TakesShortDelays => declared.clone().with_lock_delay(LONGEST_TAKEN),
            Fault::TakesAnyMinimum => declared.clone().with_min_hold(Duration::MAX),
            Fault::TakesShortMinimums => declared.clone().with_min_hold(LONGEST_TAKEN),
            Fault::EmulatesModes => declared
                .clone()
                .with_shared()
                .with_permits()
                .with_upgrades(),
            _ => declared.clone(),
        };
        Self {
            keeper: Keeper::new(checked, lease, keeper_runtime),
            server,
            declared,
            number: CLIENTS.fetch_add(1, Ordering::Relaxed),
            door: Mutex::new(()),
            waits_for: std::sync::Mutex::default(),
            alive,
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.server.fault == fault
    }

    /// Takes a lock for a client that dies before it can renew or release.
    pub(crate) fn crash(&self, request: &LockRequest) -> bool {
        // A claim that was never armed releases nothing.
        let claim = self.keeper.claim(request).expect("a valid request");
        let standing = self.server.rules().take(claim.id(), self.number, false);
        matches!(standing, Standing::Granted(_))
    }

    /// Makes the id for a claim of another process.
    pub(crate) fn new_id(&self, request: &LockRequest) -> HoldId {
        let claim = self.keeper.claim(request).expect("a valid request");
        claim.id().clone()
    }

    async fn take(&self, claim: &Claim, waits: bool) -> Standing {
        let (server, id, number) = (Arc::clone(&self.server), claim.id().clone(), self.number);
        if self.is(Fault::LooksBeforeItTakes) {
            let free = self
                .server
                .request(|rules| rules.residue().is_empty())
                .await;
            self.server.travel().await;
            let fault = if free {
                Fault::GrantsEverything
            } else {
                Fault::Nothing
            };
            return self
                .server
                .request(|rules| {
                    rules.fault = fault;
                    rules.take(&id, number, waits)
                })
                .await;
        }
        if self.is(Fault::CleanUpOvertakes) {
            let take = async move {
                server.travel().await;
                sleep(Duration::from_millis(30)).await;
                server.request(|rules| rules.take(&id, number, waits)).await
            };
            let keeper_runtime = KeeperRuntime::thread().expect("a thread");
            return keeper_runtime
                .spawn(take)
                .expect("a thread")
                .await
                .expect("no panic");
        }
        server.request(|rules| rules.take(&id, number, waits)).await
    }

    async fn attempt(&self, claim: &mut Claim, wait: Wait) -> Option<Grant> {
        if self.is(Fault::ForgetsTheCrowd) && self.server.rules().residue().len() > 100 {
            return std::future::pending().await;
        }
        let mut pushes = self.server.pushes();
        let waits = wait != Wait::No || self.is(Fault::TriesForEver);
        let mut standing = self.take(claim, waits).await;
        if self.is(Fault::LooksBeforeItListens) {
            self.server.travel().await;
            pushes = self.server.pushes();
        }
        loop {
            let expiry = match standing {
                Standing::Granted(grant) => return Some(grant),
                Standing::Absent if !waits => {
                    claim.refused();
                    return None;
                }
                // The claim was granted and has expired since the last look, so take again.
                Standing::Absent => {
                    standing = self.take(claim, true).await;
                    continue;
                }
                Standing::Waiting(expiry) => expiry,
            };
            if self.is(Fault::ForgetsWaiters) {
                claim.refused();
            }
            let deaf = matches!(
                self.server.fault,
                Fault::CleansUpSilently | Fault::IgnoresRemovals
            );
            let listens = self.listens(claim.id().key());
            tokio::select! {
                pushed = pushes.changed(), if listens => pushed.expect("the server lives"),
                () = sleep(Duration::from_millis(300)), if self.is(Fault::PollsSlowly) => {}
                () = CLOCK.sleep_until(expiry), if !deaf => {}
            }
            standing = self.server.request(|rules| rules.look(claim.id())).await;
        }
    }

    /// Returns true if releases wake a waiter for `key`.
    fn listens(&self, key: &LockKey) -> bool {
        let mut waits_for = self.waits_for.lock().expect("no panic under it");
        match self.server.fault {
            Fault::PollsSlowly => false,
            Fault::HearsOfOneKey => waits_for.get_or_insert_with(|| key.clone()) == key,
            _ => true,
        }
    }

    /// Returns the end of an attempt that the server does not answer; `None` for no end.
    fn end(&self, wait: Wait, ttl: Duration) -> Option<Instant> {
        let now = Instant::now();
        match wait {
            _ if self.is(Fault::HangsOnFrozenStore) || self.is(Fault::TriesForEver) => None,
            Wait::No => Some(now + ANSWER_LIMIT),
            Wait::Until(end) if self.is(Fault::WaitsTooLong) => Some(end + (end - now)),
            Wait::Until(end) if self.is(Fault::GivesUpEarly) => Some(end - (end - now) / 2),
            Wait::Until(end) if self.is(Fault::LongWaitsOverflow) => {
                let wait = (end - now).as_millis() % (1 << 32);
                Some(now + Duration::from_millis(wait as u64))
            }
            Wait::Until(end) => Some(end),
            Wait::Forever if self.is(Fault::WaitsForOneTtl) => Some(now + ttl),
            Wait::Forever => None,
        }
    }
}

impl Drop for ShelfLock {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::Relaxed);
    }
}

#[async_trait]
impl DistributedLock for ShelfLock {
    fn capabilities(&self) -> Capabilities {
        self.declared.clone()
    }

    async fn acquire(&self, mut request: LockRequest) -> Result<Option<LockGuard>> {
        match self.server.fault {
            Fault::OwnersAreStrangers => request.owner = None,
            Fault::AllOwnersAreOne if request.owner.is_some() => {
                request.owner = Some(self.server.owner.clone());
            }
            Fault::WaitsThroughShutdown => return self.wait(&request).await,
            _ => {}
        }
        let taking = async |request| self.wait(&request).await;
        self.keeper.acquiring(request, taking).await
    }

    async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        match self.declared.inspect {
            true => self.keeper.inspect(key).await,
            false => Err(Error::new(ErrorKind::Unsupported, "not declared")),
        }
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        match self.server.fault {
            Fault::ShutsNothingDown => Ok(()),
            // With a limit of zero, the shutdown does not wait for the store. Ignore its error.
            Fault::ShutsDownBlindly => {
                _ = self.keeper.shutdown(Duration::ZERO).await;
                Ok(())
            }
            _ => self.keeper.shutdown(within).await,
        }
    }
}

impl ShelfLock {
    async fn wait(&self, request: &LockRequest) -> Result<Option<LockGuard>> {
        let end = self.end(request.wait(), request.ttl());
        if self.is(Fault::BlocksTheThread) {
            tokio::task::block_in_place(|| {});
        }
        let _door = match self.is(Fault::WaitsInTheDoor) {
            true => Some(self.door.lock().await),
            false => None,
        };
        loop {
            let mut claim = match self.keeper.claim(request) {
                Err(error)
                    if self.is(Fault::UndeclaredIsBusy)
                        && error.kind() == ErrorKind::Unsupported =>
                {
                    return Ok(None);
                }
                claim => claim?,
            };
            if !self.is(Fault::ArmsTooLate) {
                claim.sending();
            }
            let attempt = self.attempt(&mut claim, request.wait());
            let answer = match end {
                Some(end) => timeout_at(end, attempt).await,
                None => Ok(attempt.await),
            };
            let grant = match answer {
                Ok(Some(grant)) => grant,
                Ok(None) if self.is(Fault::BusyIsAnError) => {
                    return Err(Error::new(ErrorKind::Backend, "the lock is held"));
                }
                Err(_) if !self.is(Fault::FrozenIsBusy) && self.server.is_frozen() => {
                    return Err(Error::new(ErrorKind::Unavailable, "no answer"));
                }
                Ok(None) | Err(_) => {
                    if self.is(Fault::KeepsPlacesOfWhoGaveUp) {
                        claim.refused();
                    }
                    return Ok(None);
                }
            };
            claim.sending();
            if let Some(slot) = grant.slot {
                claim.set_slot(slot);
            }
            let ttl = claim.id().store_ttl();
            let believed = if self.is(Fault::BelievesInLongerTtl) {
                ttl * 4
            } else {
                ttl
            };
            let token = FencingToken::from_grant(grant.number)?;
            if let Some(guard) = claim.granted(token, grant.at, believed) {
                return Ok(Some(guard));
            }
        }
    }
}

/// Returns all capabilities of the shelf.
pub(crate) fn everything() -> Capabilities {
    modest()
        .with_shared()
        .with_permits()
        .with_upgrades()
        .with_slots()
        .with_fairness()
        .with_push()
        .with_inspect()
        .with_lock_delay(*TTL_RANGE.end())
        .with_min_hold(*TTL_RANGE.end())
}

/// Returns the fewest capabilities that a backend may declare.
pub(crate) fn modest() -> Capabilities {
    Capabilities::new("shelf").with_ttl(TTL_RANGE)
}
