//! One acquisition: its claim, its place in the queue, and what came of its attempts.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Attempts, Backoff, Claim, Clock, Error, ErrorKind, FencingToken, LockGuard, LockRequest,
    Moment, Released, Result,
};

use crate::EtcdLock;
use crate::client::{REPLY_LIMIT, Take};
use crate::error::{BACKEND, Failure, is_lease_missing, lease_ended, unexpected};
use crate::link::Link;
use crate::place::Place;
use crate::queue::Queue;
use crate::waiting::Waiting;

/// The pauses between attempts while no server can be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Acquisition<'a> {
    lock: &'a EtcdLock,
    request: &'a LockRequest,
    attempts: Attempts,
    lane: Arc<Link>,
    /// Kept over attempts without a definite answer, so that a resend is known as one, and the place in
    /// the queue stays ours.
    standing: Option<Standing>,
    /// The lease of the last attempt had ended without our knowing, so another one may do.
    lease_was_missing: bool,
}

/// A claim and where it stands. Dropping it gives both up.
struct Standing {
    claim: Claim,
    place: Arc<Place>,
}

/// What came of an attempt.
enum Step {
    Granted(LockGuard),
    /// Others are before us.
    Behind(Queue),
}

impl<'a> Acquisition<'a> {
    pub(crate) fn new(lock: &'a EtcdLock, request: &'a LockRequest) -> Result<Self> {
        Ok(Self {
            lock,
            request,
            attempts: Attempts::new(request, REPLY_LIMIT),
            lane: lock.client.lane()?,
            standing: None,
            lease_was_missing: false,
        })
    }

    pub(crate) async fn run(&mut self) -> Result<Option<LockGuard>> {
        if self.attempts.waits() {
            self.wait().await
        } else {
            self.try_once().await
        }
    }

    /// Takes the key if it is free, and leaves no trace if it is not. Only where others share it, who
    /// would let us in, it has to stand in the queue to find out.
    async fn try_once(&mut self) -> Result<Option<LockGuard>> {
        let queue = match self.attempt(Take::IfEmpty).await? {
            Step::Granted(guard) => return Ok(Some(guard)),
            Step::Behind(queue) => queue,
        };
        if queue.created().is_none() {
            if !queue.would_let_in(self.request.mode) {
                return Ok(None);
            }
            if let Step::Granted(guard) = self.attempt(Take::LineUp).await? {
                return Ok(Some(guard));
            }
        }
        self.give_up().await
    }

    /// Stands in the queue until it is our turn, or the wait is over.
    async fn wait(&mut self) -> Result<Option<LockGuard>> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        // Requests may overtake each other on their way, and whoever came first is to stand first.
        let line = &self.lock.line;
        let mut turn = line.enter(&self.request.key, self.attempts.ends()).await;
        loop {
            let attempt = self.attempt(Take::LineUp).await.map(Some);
            drop(turn.take());
            let goes_on = match self.attempts.note(attempt, self.lane.heard())? {
                Some(Step::Granted(guard)) => return Ok(Some(guard)),
                Some(Step::Behind(queue)) => {
                    backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
                    self.until_it_may_be_our_turn(queue).await?
                }
                None => {
                    let pause = backoff.next_pause();
                    self.attempts.pause(pause, std::future::pending()).await
                }
            };
            if !goes_on {
                return self.last_word().await;
            }
        }
    }

    async fn until_it_may_be_our_turn(&mut self, queue: Queue) -> Result<bool> {
        let Some(standing) = &self.standing else {
            return Ok(true);
        };
        let waiting = Waiting::new(&self.lock.client, &standing.place, queue);
        waiting.wait(&mut self.attempts).await
    }

    /// What the end of a wait comes to: what was busy when we last heard of it may be free by now, or
    /// the servers may be gone, which is not the same as busy.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        let attempt = match self.attempt(Take::LineUp).await {
            Ok(Step::Granted(guard)) => Ok(Some(guard)),
            Ok(Step::Behind(_)) => self.give_up().await,
            Err(error) => Err(error),
        };
        self.attempts.last_word(attempt)
    }

    /// Gives the place in the queue up, so that nobody waits for us any more.
    async fn give_up(&mut self) -> Result<Option<LockGuard>> {
        let Some(mut standing) = self.standing.take() else {
            return Ok(None);
        };
        let _told: Released = self.lock.client.release(standing.claim.id()).await?;
        standing.claim.refused();
        Ok(None)
    }

    /// Asks once, with a new lease if the one that it would stand under has just ended.
    async fn attempt(&mut self, take: Take) -> Result<Step> {
        let ends = Clock::Boot.now().plus(self.patience());
        match self.ask(take, ends).await {
            Err(_) if std::mem::take(&mut self.lease_was_missing) => self.ask(take, ends).await,
            outcome => outcome,
        }
    }

    /// Dropping this, at any point, drops the armed claim.
    async fn ask(&mut self, take: Take, ends: Moment) -> Result<Step> {
        let left = || ends.since(Clock::Boot.now());
        let mut standing = self.stand(left()).await?;
        let sent = standing.claim.sending();
        let client = &self.lock.client;
        let queue = match client.take(&standing.place, take, left()).await {
            Ok(queue) => queue,
            Err(Failure::Refused(error)) => {
                // Dropped armed, since an earlier request of the same claim may be on its way.
                if !is_lease_missing(&error) {
                    return Err(Failure::Refused(error).into());
                }
                self.lease_was_missing = true;
                return Err(lease_ended());
            }
            Err(failure) => {
                self.standing = Some(standing);
                return Err(failure.into());
            }
        };
        if let Some(created) = queue.created()
            && queue.blocker().is_none()
        {
            return self.grant(standing, created).await.map(Step::Granted);
        }
        self.attempts.refused(sent);
        if queue.created().is_some() {
            self.standing = Some(standing);
        } else if !standing.place.is_doubtful() {
            client.leave(standing.claim.id().owner());
            standing.claim.refused();
        }
        Ok(Step::Behind(queue))
    }

    /// The claim of before, or a new one under a lease that lives.
    async fn stand(&mut self, limit: Duration) -> Result<Standing> {
        let last = self.standing.take();
        if let Some(standing) = last.filter(|last| last.place.lease.end().is_none()) {
            return Ok(standing);
        }
        let claim = self.lock.keeper.claim(self.request)?;
        let placing = self.lock.client.place(&claim);
        match self.lane.within(limit, placing).await {
            Some(place) => Ok(Standing {
                place: place?,
                claim,
            }),
            None => Err(crate::error::no_answer(limit)),
        }
    }

    /// Makes the guard. Its validity is counted from when its lease was last kept alive.
    async fn grant(&mut self, standing: Standing, created: i64) -> Result<LockGuard> {
        let grant = u64::try_from(created).map_err(|_| unexpected("a revision below zero"))?;
        let token = FencingToken::from_grant(grant)?;
        let (sent, ttl) = match standing.place.lease.fresh().await {
            Ok(fresh) => fresh,
            Err(error) => {
                self.standing = Some(standing);
                return Err(error);
            }
        };
        standing.place.granted(created);
        let asked = standing.claim.id().ttl();
        let guard = standing.claim.granted(token, sent, ttl);
        guard.ok_or_else(|| came_too_late(asked))
    }

    fn patience(&self) -> Duration {
        self.attempts.patience(self.lane.heard())
    }
}

fn came_too_late(ttl: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the grant came too late for a ttl of {ttl:?}: use a longer ttl, or look at what slows the servers"),
    )
    .with_backend(BACKEND)
}
