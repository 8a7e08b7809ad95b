//! Guards that share one hold on the store, each with an end of its own.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::hold::Hold;
use crate::mutex::Mutex;
use crate::{LockGuard, LossReason, Moment};

/// A hold that several guards share. It is released when the last of them has ended.
///
/// To each guard its part looks like a hold of its own, a *member*: it can be released, watched and limited
/// in time by itself. Members are not renewed and not released on the store; they follow the deadline of the
/// hold that they are part of, and are lost with it.
#[derive(Debug)]
pub(crate) struct SharedHold {
    guard: LockGuard,
    members: AtomicU64,
}

/// The members of a hold.
#[derive(Default)]
pub(crate) struct Members(Mutex<Vec<Weak<Hold>>>);

impl SharedHold {
    pub(crate) fn new(guard: LockGuard) -> Arc<Self> {
        Arc::new(Self {
            guard,
            members: AtomicU64::new(0),
        })
    }

    /// A new member, which may be held for `max_hold` at most.
    pub(crate) fn member(self: &Arc<Self>, max_hold: Option<Duration>) -> Arc<Hold> {
        let hold = self.guard.hold();
        let number = self.members.fetch_add(1, Ordering::Relaxed) + 1;
        let member = Arc::new(Hold::member(hold, number, Arc::clone(self)));
        let mut members = hold.members().0.lock();
        members.push(Arc::downgrade(&member));
        // While nobody tells the members of a renewal, so that this one misses none.
        member.follow(hold);
        drop(members);
        member.hold_at_most(max_hold);
        if let Err(reason) = hold.expire_if_due() {
            member.end(reason);
        }
        member
    }

    /// The guard of the whole, once no member needs it any more.
    pub(crate) fn into_guard(self) -> LockGuard {
        self.guard
    }
}

impl Members {
    /// Tells the members until when `hold` is valid now.
    pub(crate) fn follow(&self, hold: &Hold) {
        let members = self.0.lock();
        for member in members.iter().filter_map(Weak::upgrade) {
            member.follow(hold);
        }
    }

    /// Ends what is left of the members.
    pub(crate) fn end(&self, reason: LossReason) {
        let members = std::mem::take(&mut *self.0.lock());
        for member in members.iter().filter_map(Weak::upgrade) {
            member.end(reason);
        }
    }
}

impl Hold {
    /// A member of `whole`, the `number`-th, which keeps `shared` as long as it lasts.
    pub(crate) fn member(whole: &Self, number: u64, shared: Arc<SharedHold>) -> Self {
        let member = Self::new(
            whole.id.member(number),
            Arc::clone(&whole.keeper),
            Arc::clone(&whole.schedule),
            whole.handle.clone(),
        );
        let part_of = Some(Mutex::new(Some(shared)));
        member.state.lock().granted = true;
        Self { part_of, ..member }
    }

    pub(crate) fn is_member(&self) -> bool {
        self.part_of.is_some()
    }

    /// Takes what a member keeps of the whole, if it has not ended.
    pub(crate) fn take_part(&self) -> Option<Arc<SharedHold>> {
        self.part_of.as_ref()?.lock().take()
    }

    pub(crate) fn members(&self) -> &Members {
        self.members.get_or_init(Members::default)
    }

    /// Takes over until when `whole` was confirmed.
    pub(crate) fn follow(&self, whole: &Self) {
        let confirmation = whole.state.lock().confirmation();
        let mut state = self.state.lock();
        let was_overdue = state.overdue_from() <= self.keeper.clock.now();
        let deadline = state.deadline;
        state.follow(confirmation);
        let is_shortened = state.deadline < deadline;
        drop(state);
        if was_overdue || is_shortened {
            self.changed.notify_waiters();
        }
    }

    /// Limits for how long the present guard has it, from now on.
    pub(crate) fn hold_at_most(self: &Arc<Self>, max_hold: Option<Duration>) {
        let Some(ends) = self.ends_after(max_hold) else {
            return;
        };
        let mut state = self.state.lock();
        state.turn_ends = Some(ends);
        let due = state.due;
        drop(state);
        // Moved to its end, if that comes first.
        self.attend_at(due.unwrap_or(self.keeper.clock.now()));
    }

    /// Returns true if it was granted or renewed so lately that no renewal is due: most of what the store granted
    /// is ahead.
    pub(crate) fn is_fresh(&self) -> bool {
        let state = self.state.lock();
        state.deadline.since(self.keeper.clock.now()) >= state.ttl * 2 / 3
    }

    /// Until when its lock delay keeps the key closed, if it has ended so.
    pub(crate) fn closed_until(&self) -> Option<Moment> {
        self.state.lock().closed_until
    }

    /// Tells its members until when it is valid now.
    pub(crate) fn tell_members(&self) {
        if let Some(members) = self.members.get() {
            members.follow(self);
        }
    }

    /// Ends its members, and what it has of another hold.
    pub(crate) fn end_members(&self, reason: LossReason) {
        if let Some(members) = self.members.get() {
            members.end(reason);
        }
        self.give_up_part();
    }

    /// Gives up the part of a member that has ended. A member that was lost alone keeps the key closed
    /// for its lock delay.
    fn give_up_part(&self) {
        let Some(shared) = self.take_part() else {
            return;
        };
        let closed_until = self.closed_until();
        let Some(until) = closed_until.filter(|_| shared.guard.hold().expire_if_due().is_ok())
        else {
            return;
        };
        let clock = self.keeper.clock;
        self.handle.spawn(async move {
            clock.sleep_until(until).await;
            drop(shared);
        });
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Members")
            .field(&self.0.lock().len())
            .finish()
    }
}
