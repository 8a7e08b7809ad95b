//! A store with scripted answers to conversions, and a hold on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Claim, Clock, Converted, HoldId, Keeper, LeaseStore, Released, Renewal};
use lock_core::{
    Capabilities, Error, ErrorKind, FencingToken, LockGuard, LockRequest, LossReason, Mode, Result,
};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::support::TTL;

/// A store whose answers to conversions are scripted. It finds no hold while one is under way.
#[derive(Debug, Default)]
pub(crate) struct Converting {
    answers: Mutex<VecDeque<Option<Result<Converted>>>>,
    /// The claims of the conversions, the old and the new one of each.
    asked: Mutex<Vec<[String; 2]>>,
    released: Mutex<Vec<String>>,
    misses: Mutex<bool>,
    /// Notified when a renewal has not found the hold.
    missed: Notify,
}

/// Returns the answer of a store that grants a conversion.
pub(crate) fn granted() -> Converted {
    let token = FencingToken::from_grant(7).expect("a small number");
    Converted::Granted { token, ttl: TTL }
}

impl Converting {
    pub(crate) fn script(&self, answers: impl IntoIterator<Item = Option<Result<Converted>>>) {
        self.answers.lock().expect("no panic").extend(answers);
    }

    pub(crate) fn asked(&self) -> Vec<[String; 2]> {
        self.asked.lock().expect("no panic").clone()
    }

    pub(crate) fn released(&self) -> Vec<String> {
        self.released.lock().expect("no panic").clone()
    }

    /// Waits until a renewal has not found the hold.
    pub(crate) async fn missed(&self) {
        self.missed.notified().await;
    }

    /// Lets renewals find the hold, or not. Answers to conversions then wait until one has missed it.
    pub(crate) fn misses(&self, misses: bool) {
        *self.misses.lock().expect("no panic") = misses;
    }
}

pub(crate) fn unanswered() -> Option<Result<Converted>> {
    Some(Err(Error::new(ErrorKind::Unavailable, "scripted")))
}

#[async_trait]
impl LeaseStore for Converting {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let misses = *self.misses.lock().expect("no panic");
        if misses {
            self.missed.notify_waiters();
        }
        let sent = Clock::Runtime.now();
        let held = Renewal::Held { sent, ttl: TTL };
        let missing = Renewal::Lost(LossReason::Removed);
        Ok(vec![if misses { missing } else { held }; holds.len()])
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        let mut released = self.released.lock().expect("no panic");
        released.push(hold.claim().to_string());
        Ok(Released::Released)
    }

    async fn convert(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        let claims = [from, to.id()].map(|id| id.claim().to_string());
        self.asked.lock().expect("no panic").push(claims);
        let answer = self.answers.lock().expect("no panic").pop_front();
        match answer {
            Some(Some(answer)) => {
                if *self.misses.lock().expect("no panic") {
                    self.missed().await;
                }
                sleep(Duration::from_millis(20)).await;
                answer
            }
            Some(None) | None => std::future::pending().await,
        }
    }
}

pub(crate) fn held(mode: Mode) -> (Arc<Converting>, Keeper, LockGuard) {
    let mut request = LockRequest::upgradeable("k").expect("a key").with_ttl(TTL);
    request.mode = mode;
    held_for(&request)
}

pub(crate) fn held_for(request: &LockRequest) -> (Arc<Converting>, Keeper, LockGuard) {
    let store = Arc::<Converting>::default();
    let capabilities = Capabilities::new("scripted")
        .with_shared()
        .with_lock_delay(TTL * 9)
        .with_min_hold(TTL * 9)
        .with_upgrades();
    let keeper = Keeper::in_process(capabilities, store.clone());
    let mut claim = keeper.claim(request).expect("a claim");
    let sent = claim.sending();
    let token = FencingToken::from_grant(1).expect("in range");
    let ttl = claim.id().store_ttl();
    let guard = claim.granted(token, sent, ttl).expect("granted in time");
    (store, keeper, guard)
}
