//! Guards that share one hold on the store, each with an end of its own.
//!
//! To each guard its part looks like a hold of its own, a *member*: it can be released, watched and
//! limited in time by itself. Members are not renewed and not released on the store; they follow
//! the deadline of the hold that they are part of, and are lost with it. That is released when the
//! last of them has ended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::LossReason;
use crate::hold::validity::Validity;
use crate::hold::{Hold, Part};
use crate::mutex::Mutex;

impl Hold {
    /// Makes a member, which keeps `part` of the whole until it has ended, and may be held for
    /// `max_hold` at most.
    pub(crate) fn member(self: &Arc<Self>, part: Part, max_hold: Option<Duration>) -> Arc<Self> {
        let mut members = self.members.get_or_init(Mutex::default).lock();
        members.0 += 1;
        let id = self.id.member(members.0);
        // While no renewal is told to the members, so that this one misses none.
        let confirmation = self.state.lock().confirmation();
        let validity = Validity::of_member(self.clock.now(), &id, confirmation);
        let member = Self::of(id, self.clock, Arc::clone(&self.keeper), validity);
        let member = Arc::new(Self {
            part: Some((Arc::clone(self), Mutex::new(Some(part)))),
            ..member
        });
        members.1.push(Arc::downgrade(&member));
        drop(members);
        member.hold_at_most(max_hold);
        if let Err(reason) = self.expire_if_due() {
            member.end(reason);
        }
        member
    }

    pub(crate) fn is_member(&self) -> bool {
        self.part.is_some()
    }

    /// Takes what a member keeps of the whole, if it has not ended.
    pub(crate) fn take_part(&self) -> Option<Part> {
        let (_, part) = self.part.as_ref()?;
        part.lock().take()
    }

    /// Tells its members until when it is valid now.
    pub(super) fn tell_members(&self) {
        let Some(members) = self.members.get() else {
            return;
        };
        let members = members.lock();
        let confirmation = self.state.lock().confirmation();
        for member in members.1.iter().filter_map(Weak::upgrade) {
            let is_to_be_told = member.state.lock().follow(self.clock.now(), confirmation);
            if is_to_be_told {
                member.changed.notify_waiters();
            }
        }
    }

    /// Ends its members, and what it has of another hold. A member that was lost alone keeps the
    /// key closed for its lock delay.
    pub(super) fn end_members(&self, reason: LossReason) {
        if let Some(members) = self.members.get() {
            let members = std::mem::take(&mut members.lock().1);
            for member in members.iter().filter_map(Weak::upgrade) {
                member.end(reason);
            }
        }
        if let Some(part) = self.take_part()
            && let Some((whole, _)) = &self.part
            && let Some(until) = self.closed_until()
            && whole.expire_if_due().is_ok()
        {
            self.keeper.keep_until(part, until);
        }
    }
}
