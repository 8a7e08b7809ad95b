//! One acquisition: its claim, its place in the queue, and what came of its attempts.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Backoff, Claim, Clock, Error, ErrorKind, FencingToken, HumanDuration, LocalTurn, LockGuard,
    LockRequest, Moment, Released, Result, Retry,
};

use crate::EtcdLock;
use crate::claim_key::ClaimKey;
use crate::client::{REPLY_LIMIT, Take};
use crate::connection::shared::SharedConnection;
use crate::error::{BACKEND, Failure, is_lease_missing, lease_ended, no_answer, unexpected};
use crate::queue::Queue;
use crate::wait::shared_wait::Told;
use crate::wait::ticket::Ticket;

/// The pauses between attempts while no server can be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The time before the end of a wait at which it has the servers asked once more: then servers that are slow just at the end
/// are not taken for ones that are gone.
const BEFORE_THE_END: Duration = Duration::from_millis(240);

/// The number of claims that a take looks at that does not wait: nearly always enough to see that it is refused.
const PAGE: i64 = 50;

pub(crate) struct Acquisition<'a> {
    lock: &'a EtcdLock,
    request: &'a LockRequest,
    retry: Retry,
    lane: Arc<SharedConnection>,
    /// Kept over attempts without a definite answer, so that a resend is known as one, and the place in
    /// the queue stays ours.
    standing: Option<Standing>,
    /// The claim that was created then is the next one: those that kept it out have gone.
    next: Option<i64>,
    /// The lease of the last attempt had ended without our knowing, so another one may do.
    lease_was_missing: bool,
}

/// A claim and where it stands. Dropping it gives both up.
struct Standing {
    claim: Claim,
    place: Arc<ClaimKey>,
}

/// Why a waiter looks up.
enum Woken {
    By(Told),
    /// Its own lease has ended.
    LeaseEnded,
    /// The wait is over.
    Over,
}

/// The outcome of an attempt.
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
            retry: Retry::new(request, REPLY_LIMIT),
            lane: lock.client.lane()?,
            standing: None,
            next: None,
            lease_was_missing: false,
        })
    }

    pub(crate) async fn run(&mut self) -> Result<Option<LockGuard>> {
        if self.retry.waits() {
            self.wait().await
        } else {
            self.try_once().await
        }
    }

    /// Takes the key if it is free, and leaves no trace if it is not. Only where others share it, who
    /// would let us in, it has to stand in the queue to find out.
    async fn try_once(&mut self) -> Result<Option<LockGuard>> {
        let mode = self.request.mode;
        let mut queue = match self.attempt(Take::IfQueueEmpty(PAGE)).await? {
            Step::Granted(guard) => return Ok(Some(guard)),
            Step::Behind(queue) => queue,
        };
        let tells_all = queue.created().is_none() && !queue.might_let_in(mode);
        if queue.is_partial() && !tells_all {
            queue = match self.attempt(Take::IfQueueEmpty(0)).await? {
                Step::Granted(guard) => return Ok(Some(guard)),
                Step::Behind(queue) => queue,
            };
        }
        if queue.created().is_none() {
            if !queue.might_let_in(mode) {
                return Ok(None);
            }
            if let Step::Granted(guard) = self.attempt(Take::Enqueue).await? {
                return Ok(Some(guard));
            }
        }
        self.give_up().await
    }

    /// Stands in the queue until it is our turn, or the wait is over.
    async fn wait(&mut self) -> Result<Option<LockGuard>> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        // Requests can overtake each other on the network; the line keeps the order of arrival.
        let line = &self.lock.line;
        let mut turn = line.enter(&self.request.key, &mut self.retry).await?;
        loop {
            let attempt = self.attempt(self.way_in()?).await.map(Some);
            let goes_on = match self.retry.note(attempt, self.lane.heard())? {
                Some(Step::Granted(guard)) => return Ok(Some(guard)),
                Some(Step::Behind(queue)) => {
                    backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
                    self.until_it_may_be_our_turn(queue, &mut turn).await?
                }
                None => {
                    drop(turn.take());
                    let pause = backoff.next_pause();
                    self.retry.pause(pause, std::future::pending()).await
                }
            };
            if !goes_on {
                return self.last_word().await;
            }
        }
    }

    /// Returns who is next, or comes behind waiters of this client, need not see the whole queue.
    fn way_in(&self) -> Result<Take> {
        let waits = &self.lock.client.background()?.waits;
        let queue = self.lock.client.keys.queue(&self.request.key);
        let is_known = self.next.is_some() || waits.has_waiter(&queue);
        Ok(if is_known {
            Take::KeepPlace
        } else {
            Take::Enqueue
        })
    }

    /// Waits until the claims before ours have gone; `false` when the wait ended before.
    async fn until_it_may_be_our_turn(
        &mut self,
        queue: Queue,
        turn: &mut Option<LocalTurn>,
    ) -> Result<bool> {
        self.next = None;
        let (Some(standing), Some(created)) = (&self.standing, queue.created()) else {
            return Ok(true);
        };
        let place = Arc::clone(&standing.place);
        let background = self.lock.client.background()?;
        let mut seen = Some(queue);
        loop {
            let own = (&place.key, created);
            let mut ticket = background.waits.enter(&place.queue, own, seen.take());
            drop(turn.take());
            let told = self.until_told(&mut ticket, &place).await;
            if !matches!(told, Woken::By(Told::Next))
                && let Some(sent) = ticket.checked()
            {
                self.retry.refused(sent);
            }
            drop(ticket);
            match told {
                Woken::By(Told::Next) => {
                    self.next = Some(created);
                    return Ok(true);
                }
                Woken::By(Told::Gone) | Woken::LeaseEnded => return Ok(true),
                Woken::By(Told::Failed(error)) => {
                    let failed: Result<Option<Step>> = Err(error);
                    self.retry.note(failed, background.link.heard())?;
                }
                Woken::Over => return Ok(false),
            }
        }
    }

    async fn until_told(&self, ticket: &mut Ticket, place: &ClaimKey) -> Woken {
        let mut is_near_the_end = false;
        loop {
            let left = self.retry.left();
            let pause = match left.checked_sub(BEFORE_THE_END) {
                Some(pause) if !is_near_the_end => pause,
                _ => left,
            };
            // All are cancel safe: what was not received stays for the next turn.
            tokio::select! {
                told = ticket.told() => return Woken::By(told),
                () = place.lease.ended() => return Woken::LeaseEnded,
                () = tokio::time::sleep(pause) => {
                    if self.retry.is_over() {
                        return Woken::Over;
                    }
                    is_near_the_end = true;
                    ticket.check(BEFORE_THE_END);
                }
            }
        }
    }

    /// Returns what the end of a wait comes to: what was busy when we last heard of it may be free by now, or
    /// the servers may be gone, which is not the same as busy.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        let take = if self.standing.is_some() {
            self.way_in()?
        } else {
            Take::Enqueue
        };
        let attempt = match self.attempt(take).await {
            Ok(Step::Granted(guard)) => Ok(Some(guard)),
            Ok(Step::Behind(_)) => self.give_up().await,
            Err(error) => Err(error),
        };
        self.retry.last_word(attempt)
    }

    /// Gives the place in the queue up, so that nobody waits for us any more.
    async fn give_up(&mut self) -> Result<Option<LockGuard>> {
        let Some(mut standing) = self.standing.take() else {
            return Ok(None);
        };
        let releasing = Box::pin(self.lock.client.release_claim(standing.claim.id()));
        let _told: Released = releasing.await?;
        standing.claim.refused();
        Ok(None)
    }

    /// Asks once, with a new lease if the one that it would stand under has just ended.
    async fn attempt(&mut self, take: Take) -> Result<Step> {
        let ends = Clock::Boot.now().plus(self.patience());
        // Boxed, since a waiter would be as large as its requests for as long as it waits.
        match Box::pin(self.ask(take, ends)).await {
            Err(_) if std::mem::take(&mut self.lease_was_missing) => {
                Box::pin(self.ask(take, ends)).await
            }
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
            Err(Failure::Refused(refusal)) => {
                // Dropped armed, since an earlier request of the same claim may be on its way.
                if !is_lease_missing(&refusal.error) {
                    return Err(refusal.into());
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
            && (queue.is_ours() || self.next == Some(created))
        {
            return self.grant(standing, created).await.map(Step::Granted);
        }
        self.retry.refused(sent);
        let ends = queue.check_ends(queue.created().unwrap_or(i64::MAX));
        if queue.created().is_some() {
            self.standing = Some(standing);
        } else if !standing.place.is_in_doubt() {
            client.leave(standing.claim.id().owner());
            standing.claim.refused();
        }
        ends.map(|()| Step::Behind(queue))
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
            None => Err(no_answer(limit)),
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
        self.retry.patience(self.lane.heard())
    }
}

fn came_too_late(ttl: Duration) -> Error {
    let ttl = HumanDuration(ttl);
    Error::new(
        ErrorKind::Unavailable,
        format!("the grant came too late for a ttl of {ttl}: use a longer ttl, or look at what slows the servers"),
    )
    .with_backend(BACKEND)
}
