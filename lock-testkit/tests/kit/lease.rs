//! Renewals and releases of a client, correct or with a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Claim, Converted, HoldId, KeeperRuntime, LeaseStore, Released, Renewal};
use lock_core::{Error, ErrorKind, KeyInfo, LockKey, LossReason, Result};
use tokio::time::{sleep, timeout};

use crate::client::ANSWER_LIMIT;
use crate::fault::Fault;
use crate::inspect::inspect;
use crate::rules::CLOCK;
use crate::server::Server;

#[derive(Debug)]
pub(crate) struct ShelfLease {
    pub(crate) server: Arc<Server>,
    pub(crate) client_lives: Arc<AtomicBool>,
}

impl ShelfLease {
    fn is(&self, fault: Fault) -> bool {
        self.server.fault == fault
    }

    async fn renew_one(&self, hold: &HoldId, first: bool) -> Renewal {
        let sent = CLOCK.now();
        let held = Renewal::Held {
            sent,
            ttl: hold.store_ttl(),
        };
        if self.is(Fault::RenewsTheFirst) && !first {
            return held;
        }
        let claim = hold.claim().to_string();
        if self.is(Fault::ConversionEndsRenewals) && self.server.rules().converted.contains(&claim)
        {
            return Renewal::Unknown;
        }
        let resurrect = self.is(Fault::RenewalResurrects);
        let request = self.server.request(|rules| rules.renew(hold, resurrect));
        let there = match self.server.fault {
            Fault::RenewsBlindly => timeout(ANSWER_LIMIT / 20, request).await.unwrap_or(true),
            Fault::UnknownIsLost => timeout(ANSWER_LIMIT / 20, request).await.unwrap_or(false),
            _ => request.await,
        };
        match there {
            true => held,
            false if self.is(Fault::RenewsTheFirst) => held,
            false if self.is(Fault::CallsRemovalExpiry) => Renewal::Lost(LossReason::Expired),
            false => Renewal::Lost(LossReason::Removed),
        }
    }
}

#[async_trait]
impl LeaseStore for ShelfLease {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let orphaned = !self.client_lives.load(Ordering::Relaxed);
        if self.is(Fault::NeverRenews) || self.is(Fault::HoldsDieWithClient) && orphaned {
            return Err(Error::new(ErrorKind::Unavailable, "renewals fail here"));
        }
        let mut renewals = Vec::with_capacity(holds.len());
        for (index, hold) in holds.iter().enumerate() {
            renewals.push(self.renew_one(hold, index == 0).await);
        }
        if self.is(Fault::RenewalComesLate) {
            let (server, holds) = (Arc::clone(&self.server), holds.to_vec());
            KeeperRuntime::thread()?.spawn(async move {
                sleep(Duration::from_millis(100)).await;
                holds.iter().all(|hold| server.rules().renew(hold, true))
            })?;
        }
        Ok(renewals)
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        let in_background = std::thread::current().name() == Some("polylock-keeper");
        if self.is(Fault::ReleasesOnlyWhenAsked) && in_background {
            return Ok(Released::Released);
        }
        if self.server.rules().begin_release(hold) && self.is(Fault::ReleasesOnlyOnce) {
            return Ok(Released::AlreadyLost);
        }
        let request = self.server.request(|rules| rules.release(hold));
        let released = match self.server.fault {
            // With this fault, the keeper uses the caller's runtime. It may have no timer any more.
            Fault::BelievesInLongerTtl => request.await,
            _ => timeout(ANSWER_LIMIT, request)
                .await
                .map_err(|_| Error::new(ErrorKind::Unavailable, "no answer"))?,
        };
        if self.is(Fault::ReleaseComesTwice) {
            let (server, key) = (Arc::clone(&self.server), hold.key().clone());
            KeeperRuntime::thread()?.spawn(async move {
                sleep(Duration::from_millis(1)).await;
                server.rules().evict(key.as_str())
            })?;
        }
        if !(self.is(Fault::CleansUpSilently) && in_background) {
            self.server.push(hold.key().as_str());
        }
        Ok(released)
    }

    async fn convert(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        let request = self.server.request(|rules| rules.convert(from, to.id(), 0));
        let converted = timeout(ANSWER_LIMIT, request).await;
        self.server.push(from.key().as_str());
        converted.map_err(|_| Error::new(ErrorKind::Unavailable, "no answer"))
    }

    async fn inspect(&self, key: &LockKey) -> Result<KeyInfo> {
        Ok(self.server.request(|rules| inspect(rules, key)).await)
    }

    async fn shorten(&self, hold: &HoldId, left: Duration) -> Result<Released> {
        if self.is(Fault::ReleasesBeforeTheMinimum) {
            return self.release(hold).await;
        }
        let shortened = self.server.request(|rules| rules.shorten(hold, left)).await;
        Ok(match shortened {
            true => Released::Released,
            false => Released::AlreadyLost,
        })
    }
}
