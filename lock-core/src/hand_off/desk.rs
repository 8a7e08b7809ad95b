//! Where the waiters of one process for one key stand in line, and what is passed along it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::hold::Hold;
use crate::sync::locked;
use crate::{LockGuard, LockKey, LockRequest};

/// The lines of one client, key by key.
#[derive(Debug)]
pub(super) struct Desks {
    lines: Mutex<HashMap<LockKey, LineAtDesk>>,
    /// How many places there were: each has a number of its own, so that one that was forfeited
    /// can do nothing to a later one.
    places: AtomicU64,
    /// How long one hold may be handed on.
    pub(super) budget: Duration,
    /// How long to stay away from the store after a spent budget, so that others get their turn.
    pub(super) rest: Duration,
}

#[derive(Debug)]
struct LineAtDesk {
    waiters: VecDeque<Waiter>,
    /// The place that counts; an earlier one has been forfeited.
    place: u64,
    /// Whether the place is with a guard; else somebody asks the store for the key.
    held: bool,
}

/// The first place in line: whoever has it deals with the store, holds the key or releases it.
///
/// Dropping it passes it to the next waiter, who then claims the key anew.
#[derive(Debug)]
pub(crate) struct Place {
    desks: Arc<Desks>,
    key: LockKey,
    number: u64,
    /// When the hold was won.
    since: Option<Instant>,
    /// Not to ask the store before this.
    pub(super) rests_until: Option<Instant>,
    passed: bool,
}

/// Passes a place on when its hold is lost, although the guard is still there.
pub(crate) struct Forfeiter {
    desks: Arc<Desks>,
    key: LockKey,
    number: u64,
}

/// Somebody in line behind the first place.
#[derive(Debug)]
pub(crate) struct Waiter {
    ttl: Duration,
    lock_delay: Duration,
    max_hold: Option<Duration>,
    runtime: Option<Id>,
    baton: oneshot::Sender<Baton>,
}

/// What the next in line receives.
#[derive(Debug)]
pub(super) enum Baton {
    /// The held key.
    Guard(LockGuard),
    /// The place, to claim the key.
    Place(Place),
}

pub(super) enum Arrival {
    First(Place),
    Behind(oneshot::Receiver<Baton>),
}

impl Desks {
    pub(super) fn new(budget: Duration, rest: Duration) -> Self {
        Self {
            lines: Mutex::default(),
            places: AtomicU64::new(0),
            budget,
            rest,
        }
    }

    /// Stands in line for what `request` wants.
    pub(super) fn arrive(self: &Arc<Self>, request: &LockRequest) -> Arrival {
        let key = &request.key;
        let mut lines = locked(&self.lines);
        if let Some(line) = lines.get_mut(key) {
            let (baton, receiver) = oneshot::channel();
            line.forget_the_gone();
            let runtime = Handle::try_current().ok().map(|handle| handle.id());
            line.waiters.push_back(Waiter {
                ttl: request.ttl(),
                lock_delay: request.lock_delay(),
                max_hold: request.max_hold,
                runtime,
                baton,
            });
            return Arrival::Behind(receiver);
        }
        let number = self.next_number();
        let line = LineAtDesk {
            waiters: VecDeque::new(),
            place: number,
            held: false,
        };
        lines.insert(key.clone(), line);
        drop(lines);
        Arrival::First(self.place(key, number, None))
    }

    fn place(self: &Arc<Self>, key: &LockKey, number: u64, rests_until: Option<Instant>) -> Place {
        Place {
            desks: Arc::clone(self),
            key: key.clone(),
            number,
            since: None,
            rests_until,
            passed: false,
        }
    }

    /// Passes the place `number` to the next waiter; without one the line is forgotten.
    fn pass_on(self: &Arc<Self>, key: &LockKey, number: u64, rests_until: Option<Instant>) {
        let mut number = number;
        while let Some((waiter, next)) = self.pop(key, number) {
            number = next;
            let place = self.place(key, number, rests_until);
            match waiter.baton.send(Baton::Place(place)) {
                Ok(()) => return,
                // The waiter has gone. Passing on from here, and not from the drop of the place
                // that came back, keeps a long line of gone waiters off the stack.
                Err(Baton::Place(mut place)) => place.passed = true,
                Err(Baton::Guard(_)) => {}
            }
        }
    }

    /// Takes the next waiter out of the line, and gives the place a new number.
    fn pop(&self, key: &LockKey, number: u64) -> Option<(Waiter, u64)> {
        let mut lines = locked(&self.lines);
        let line = lines.get_mut(key).filter(|line| line.place == number)?;
        line.held = false;
        line.place = self.next_number();
        let next = line.waiters.pop_front().map(|waiter| (waiter, line.place));
        if next.is_none() {
            lines.remove(key);
        }
        next
    }

    fn next_number(&self) -> u64 {
        self.places.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a guard of this process holds `key`.
    pub(super) fn is_held(&self, key: &LockKey) -> bool {
        locked(&self.lines).get(key).is_some_and(|line| line.held)
    }
}

impl Place {
    /// Starts the turn of a hold that was won just now.
    pub(super) fn holding(mut self) -> Self {
        self.since = Some(Instant::now());
        if let Some(line) = locked(&self.desks.lines).get_mut(&self.key) {
            line.held = true;
        }
        self
    }

    /// Says that the guard at this place has ended, although its release may take a while.
    pub(crate) fn gives_up(&self) {
        let mut lines = locked(&self.desks.lines);
        if let Some(line) = lines
            .get_mut(&self.key)
            .filter(|line| line.place == self.number)
        {
            line.held = false;
        }
    }

    /// The next waiter, if it may have `hold` as it is: within the budget, with the ttl and the lock
    /// delay it asked for, and with most of the lease ahead.
    pub(crate) fn next_waiter(&mut self, hold: &Hold) -> Option<Waiter> {
        let ttl = hold.id.ttl();
        if self.since?.elapsed() >= self.desks.budget || hold.lease_left() < ttl * 2 / 3 {
            return None;
        }
        let mut lines = locked(&self.desks.lines);
        let line = lines
            .get_mut(&self.key)
            .filter(|line| line.place == self.number)?;
        while line.waiters.front().is_some_and(Waiter::is_gone) {
            line.waiters.pop_front();
        }
        let next = line.waiters.front()?;
        // A hold that is kept on its owner's runtime cannot leave it.
        let at_home = hold.keeper.home.outlives_callers() || next.runtime == Some(hold.handle.id());
        let is_alike = (next.ttl, next.lock_delay) == (ttl, hold.id.lock_delay());
        if !is_alike || !at_home {
            return None;
        }
        line.waiters.pop_front()
    }

    pub(crate) fn forfeiter(&self) -> Forfeiter {
        Forfeiter {
            desks: Arc::clone(&self.desks),
            key: self.key.clone(),
            number: self.number,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.passed {
            let rests_until = self.since.map(|_| Instant::now() + self.desks.rest);
            self.desks.pass_on(&self.key, self.number, rests_until);
        }
    }
}

impl Forfeiter {
    pub(crate) fn forfeit(&self) {
        self.desks.pass_on(&self.key, self.number, None);
    }
}

impl LineAtDesk {
    /// Keeps a line whose waiters come and give up from growing: looks whenever it would have to
    /// grow, so the cost is spread over the arrivals.
    fn forget_the_gone(&mut self) {
        if self.waiters.len() == self.waiters.capacity() {
            self.waiters.retain(|waiter| !waiter.is_gone());
        }
    }
}

impl Waiter {
    fn is_gone(&self) -> bool {
        self.baton.is_closed()
    }

    /// How long it may hold what it is given.
    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// Gives the waiter the held key; it comes back when the waiter has gone.
    pub(crate) fn give(self, guard: LockGuard) -> Result<(), LockGuard> {
        match self.baton.send(Baton::Guard(guard)) {
            Err(Baton::Guard(guard)) => Err(guard),
            Err(Baton::Place(_)) | Ok(()) => Ok(()),
        }
    }
}
