//! One waiter, from its arrival until it has its guard.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::queues::HandOffQueues;
use super::slot::{self, ClaimFuture, Slot, SlotQueues, SlotState};
use crate::{Error, LockGuard, LockRequest, Result, Wait};

/// A waiter in its queue. Dropping it leaves the queue and passes on the slot's content.
pub(super) struct Waiting<'a> {
    queues: &'a Arc<HandOffQueues>,
    request: &'a LockRequest,
    slot: Arc<Slot>,
    /// `None` for a wait without a limit, the most frequent case.
    timer: Option<Pin<Box<Sleep>>>,
}

/// The outcome of a wait.
pub(super) enum WaitOutcome {
    Decided(Result<Option<LockGuard>>),
    /// The wait ran out while the waiter was queued.
    TimedOut,
}

impl<'a> Waiting<'a> {
    /// Enters the queue of the request's key.
    pub(super) fn arrive(queues: &'a Arc<HandOffQueues>, request: &'a LockRequest) -> Self {
        let timer = request
            .wait()
            .deadline()
            .map(|ends| Box::pin(sleep_until(ends)));
        Self {
            queues,
            request,
            slot: queues.arrive(request, slot::now(), 0),
            timer,
        }
    }

    pub(super) async fn outcome(mut self) -> WaitOutcome {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<WaitOutcome> {
        loop {
            self.slot.polled(context.waker());
            match self.slot.look() {
                SlotState::Waits => return self.poll_timer(context),
                SlotState::Drives(rests_until) => {
                    if let Poll::Ready(outcome) = self.drive(rests_until) {
                        return Poll::Ready(WaitOutcome::Decided(outcome));
                    }
                    if self.slot.is_driving() {
                        return Poll::Pending;
                    }
                }
                SlotState::Given(guard) => {
                    if guard.is_held() {
                        return Poll::Ready(WaitOutcome::Decided(Ok(Some(guard))));
                    }
                    // The hold was lost before this poll. A new claim returns the reason if it is
                    // permanent.
                    drop(guard);
                    self.arrive_again();
                }
                SlotState::Shares(grant) => match grant.guard(self.request.max_hold) {
                    Some(guard) => return Poll::Ready(WaitOutcome::Decided(Ok(Some(guard)))),
                    None => self.arrive_again(),
                },
                SlotState::Failed(error) => return Poll::Ready(WaitOutcome::Decided(Err(error))),
                SlotState::Lapsed | SlotState::Gone => self.arrive_again(),
            }
        }
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<WaitOutcome> {
        match &mut self.timer {
            Some(timer) => timer.as_mut().poll(context).map(|()| WaitOutcome::TimedOut),
            None => Poll::Pending,
        }
    }

    /// Enters the queue again, at its end.
    fn arrive_again(&mut self) {
        let (arrived, lapses) = (self.slot.arrived, self.slot.lapses());
        let slot = self.queues.arrive(self.request, arrived, lapses);
        let old = std::mem::replace(&mut self.slot, slot);
        leave(self.queues, &old);
    }

    /// Polls the claim until it is decided or this waiter is no longer the driver.
    fn drive(&self, rests_until: Option<Instant>) -> Poll<Result<Option<LockGuard>>> {
        let claimed = self.slot.poll_claim(|| self.claim(rests_until));
        let Poll::Ready(claimed) = claimed else {
            return Poll::Pending;
        };
        match claimed {
            Ok(Some(guard)) => Poll::Ready(Ok(Some(self.queues.granted(&self.slot, guard)))),
            // The slot has other content by now, which the caller reads next.
            Ok(None) | Err(_) if !self.slot.is_driving() => Poll::Pending,
            Ok(None) => Poll::Ready(Ok(None)),
            Err(error) => {
                self.queues.note_outage(&self.slot, error.is_retryable());
                self.fail_others(&error);
                Poll::Ready(Err(error))
            }
        }
    }

    fn claim(&self, rests_until: Option<Instant>) -> ClaimFuture {
        let locks = Arc::clone(&self.queues.locks);
        let mut request = self.request.clone();
        request.max_hold = None;
        request.followers = Some(Slot::followers(&self.slot));
        // Only a waiter that asked the store knows of an outage. Without one, count the silence
        // from now.
        let is_silent = self.queues.is_silent(&self.slot.key);
        request.arrived = Some(if is_silent {
            self.slot.arrived
        } else {
            slot::now()
        });
        Box::pin(async move {
            if let Some(rested) = rests_until {
                let ends = request.wait().deadline();
                sleep_until(ends.map_or(rested, |ends| ends.min(rested))).await;
            }
            locks.acquire(request).await
        })
    }

    /// Fails the waiters behind that have waited as long, so that they need not find out one by
    /// one. A wait without a limit gives up only after the store was unreachable for long.
    fn fail_others(&self, error: &Error) {
        if self.request.wait() == Wait::Forever && error.is_retryable() {
            self.queues
                .fail_outlasted(&self.slot, error, self.slot.arrived);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        leave(self.queues, &self.slot);
    }
}

/// Leaves the queue and passes on the slot's content.
fn leave(queues: &HandOffQueues, slot: &Slot) {
    match slot.leave() {
        SlotState::Drives(_) => {
            drop(slot.take_claim());
            queues.driver_left(slot);
        }
        SlotState::Shares(grant) => grant.leave(),
        // The drop hands an unreceived guard on or releases it.
        other => {
            drop(slot.take_claim());
            drop(other);
        }
    }
}
