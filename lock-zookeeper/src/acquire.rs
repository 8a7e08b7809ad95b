//! One acquisition: asks, waits and asks again, until granted or the wait is over.

use std::future::pending;
use std::time::Duration;

use lock_core::{
    Backoff, Clock, Error, ErrorKind, HumanDuration, LockGuard, LockRequest, Mode, Moment, Result,
    Retry, blocking_claim,
};

use zookeeper_client::Error as ZooKeeperError;

use crate::claim_node::{ClaimNode, Look};
use crate::error::{BACKEND, is_end_of_session, is_loss_of_connection, no_claim, translate};
use crate::lock::ZooKeeperLock;
use crate::session::node::DriverResult;
use crate::waiting::{Waiting, WaitsFor, trust};

/// The time that an answer may take, if nothing shorter applies.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// The time before the end of a wait at which it looks once more: then an ensemble that is slow just at the end is
/// not taken for one that is gone.
const BEFORE_THE_END: Duration = Duration::from_millis(240);

/// The time that an answer that the key is held stands, while the watch that is open says nothing else.
const RECENT: Duration = Duration::from_millis(300);

pub(crate) struct Acquisition<'a> {
    lock: &'a ZooKeeperLock,
    request: &'a LockRequest,
    retry: Retry,
    /// Taken by the guard that is made of it.
    stand: Option<ClaimNode<'a>>,
    waiting: Option<Waiting>,
    /// When the ensemble was known to be there, as the last answer came that the key is held.
    told_held: Option<Moment>,
    /// Which claim had been changed before we watched it, which made us look again.
    looked_again_for: Option<String>,
}

impl<'a> Acquisition<'a> {
    pub(crate) fn new(lock: &'a ZooKeeperLock, request: &'a LockRequest) -> Result<Self> {
        Ok(Self {
            lock,
            request,
            retry: Retry::new(request, REPLY_LIMIT),
            stand: Some(ClaimNode::new(&lock.client, &lock.keeper, request)?),
            waiting: None,
            told_held: None,
            looked_again_for: None,
        })
    }

    pub(crate) async fn run(mut self) -> Result<Option<LockGuard>> {
        if !self.retry.waits() {
            return Box::pin(self.try_once()).await;
        }
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1));
        let mut doubt = false;
        loop {
            // An attempt is large, and most of the time it is waited for the next one.
            let attempt = Box::pin(self.attempt(true, doubt)).await;
            let heard = self.lock.client.heard.last();
            if let Some(guard) = self.retry.note(attempt, heard)? {
                return Ok(Some(guard));
            }
            let pause = if self.retry.is_troubled() {
                backoff.next_pause()
            } else {
                self.trust()
            };
            doubt = true;
            let changed = async {
                match &mut self.waiting {
                    Some(waiting) => {
                        waiting.changed().await;
                        doubt = false;
                    }
                    None => pending().await,
                }
            };
            if !self.retry.pause(pause, changed).await {
                return Box::pin(self.last_word()).await;
            }
        }
    }

    /// Takes the key if it is free. One that was refused before is looked at first.
    async fn try_once(mut self) -> Result<Option<LockGuard>> {
        let (refused, key) = (&self.lock.client.refused, &self.request.key);
        if refused.has(key) {
            if self.is_held().await? {
                return Ok(None);
            }
            refused.forget(key);
        }
        if let Some(guard) = self.attempt(false, false).await? {
            return Ok(Some(guard));
        }
        refused.note(key);
        self.withdraw().await;
        Ok(None)
    }

    /// Looks once more at the end of a wait: what was held when we last heard of it may be free by now,
    /// or the ensemble may be gone, which is not the same.
    async fn last_word(mut self) -> Result<Option<LockGuard>> {
        let is_recent = |told| Clock::Boot.now().since(told) < RECENT;
        if !self.told_held.is_some_and(is_recent) {
            let attempt = self.attempt(false, false).await;
            if let Some(guard) = self.retry.last_word(attempt)? {
                return Ok(Some(guard));
            }
        }
        self.withdraw().await;
        Ok(None)
    }

    /// Leaves the line. If that is not confirmed, it goes on in the background.
    async fn withdraw(&mut self) {
        let limit = self.patience();
        let deadlines = self.lock.client.deadlines.clone();
        let Some(stand) = &mut self.stand else { return };
        let withdrawn = deadlines.timeout(limit, stand.withdraw()).await;
        if let Some(Err(error)) = withdrawn {
            tracing::debug!(%error, "leaving the line goes on in the background");
        }
    }

    /// Returns true if the key is held, as far as this request is concerned.
    async fn is_held(&mut self) -> Result<bool> {
        let limit = self.patience();
        let deadlines = self.lock.client.deadlines.clone();
        let mode = self.request.mode;
        let stand = self.stand()?;
        let looking = async {
            let (session, line) = stand.look_from_outside().await?;
            let mut modes = line.modes().to_vec();
            modes.push(mode);
            let before = blocking_claim(&modes, modes.len() - 1);
            stand.check(&session, &line, before).await?;
            Ok(before.is_some())
        };
        let looked = deadlines.timeout(limit, looking).await;
        looked.ok_or_else(|| self.lock.client.request_sizes.no_answer(limit))?
    }

    /// One look, answered in time; the guard, if nobody is in the way.
    async fn attempt(&mut self, watch: bool, doubt: bool) -> Result<Option<LockGuard>> {
        let limit = self.patience();
        let deadlines = self.lock.client.deadlines.clone();
        let step = deadlines.timeout(limit, self.step(watch, doubt)).await;
        let no_answer = || self.lock.client.request_sizes.no_answer(limit);
        let Some(look) = step.unwrap_or_else(|| Err(no_answer()))? else {
            return Ok(None);
        };
        let guard = match self.stand.take() {
            Some(stand) => stand.granted(&look)?,
            None => None,
        };
        guard
            .map(Some)
            .ok_or_else(|| came_too_late(self.request.ttl()))
    }

    /// Dropping it at any point leaves the claim armed.
    async fn step(&mut self, watch: bool, doubt: bool) -> Result<Option<Look>> {
        loop {
            let look = self.stand()?.look(doubt).await?;
            let (line, session) = (&look.line, &look.session);
            let modes = line.modes();
            let before = blocking_claim(modes, look.index);
            // A waiter hears of the one in the way when it watches that.
            let in_the_way = before.filter(|_| !watch);
            self.stand()?.check(session, line, in_the_way).await?;
            let Some(before) = before else {
                return Ok(Some(look));
            };
            self.retry.refused(look.confirmed);
            self.told_held = Some(look.confirmed);
            let is_permit_before = matches!(modes[before], Mode::Permit { .. });
            let is_permit = matches!(self.request.mode, Mode::Permit { .. });
            let before_holds = || blocking_claim(modes, before).is_none();
            let before = if is_permit && is_permit_before && before_holds() {
                WaitsFor::Anyone
            } else {
                WaitsFor::Claim(line.name(before).to_owned())
            };
            if !watch || self.watch(&look, before).await? {
                return Ok(None);
            }
        }
    }

    /// Has us told of a change of `before`; `false` when there may have been one meanwhile.
    async fn watch(&mut self, look: &Look, before: WaitsFor) -> Result<bool> {
        let waiting = self.waiting.as_ref();
        if waiting.is_some_and(|waiting| waiting.is_for(&before)) {
            return Ok(true);
        }
        self.waiting = None;
        let lock = &look.lock;
        match &before {
            WaitsFor::Anyone => {
                let Some(watcher) = settle(look.session.watch_line(lock).await)? else {
                    return Ok(false);
                };
                self.waiting = Some(Waiting::for_anyone(watcher));
                // Somebody may have gone before the watch was open.
                Ok(false)
            }
            WaitsFor::Claim(name) => {
                let path = format!("{lock}/{name}");
                let watching = look.session.watch(&path);
                let Some(Some(watched)) = settle(watching.clone().await)? else {
                    return Ok(false);
                };
                if !watched.is_ephemeral {
                    return Err(no_claim(&path));
                }
                let is_news = watched.changes > 0 && self.looked_again_for.as_ref() != Some(name);
                self.looked_again_for = Some(name.clone());
                self.waiting = Some(Waiting::for_claim(name.clone(), watching, watched.changed));
                Ok(!is_news)
            }
        }
    }

    /// The claim's place in the line; a new claim's after one that came too late.
    fn stand(&mut self) -> Result<&mut ClaimNode<'a>> {
        match &mut self.stand {
            Some(stand) => Ok(stand),
            none => {
                let (client, keeper) = (&self.lock.client, &self.lock.keeper);
                Ok(none.insert(ClaimNode::new(client, keeper, self.request)?))
            }
        }
    }

    /// Returns how long to wait for a change before looking without one.
    fn trust(&self) -> Duration {
        let trust = trust(self.request.ttl());
        match self.retry.left().checked_sub(BEFORE_THE_END) {
            Some(left) if !left.is_zero() => trust.min(left),
            Some(_) | None => trust,
        }
    }

    fn patience(&self) -> Duration {
        self.retry.patience(self.lock.client.heard.last())
    }
}

/// Returns what an answer comes to: `None` when one has to look again.
fn settle<T>(answer: DriverResult<T>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if is_loss_of_connection(&error)
                || is_end_of_session(&error)
                || error == ZooKeeperError::NoNode =>
        {
            Ok(None)
        }
        Err(error) => Err(translate(error)),
    }
}

fn came_too_late(ttl: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the grant came too late for a ttl of {}: use a longer ttl, or look at what slows the servers", HumanDuration(ttl)),
    )
    .with_backend(BACKEND)
}
