//! Guards that share one hold on the store, each with its own end.
//!
//! Each guard has a *member*, which behaves like a separate hold: it can be released, watched and
//! limited in time. Members are not renewed or released on the store. They follow the deadline of
//! the shared hold and are lost with it. The shared hold is released when its last member has
//! ended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::LossReason;
use crate::hold::validity::Validity;
use crate::hold::{Hold, Part};
use crate::mutex::Mutex;

impl Hold {
    /// Makes a member, which keeps `part` of the shared hold until the member ends, for at most
    /// `max_hold`.
    pub(crate) fn member(self: &Arc<Self>, part: Part, max_hold: Option<Duration>) -> Arc<Self> {
        let mut members = self.members.get_or_init(Mutex::default).lock();
        members.0 += 1;
        let id = self.id.member(members.0);
        // Read while the list is locked, so that this member misses no renewal.
        let confirmation = self.state.lock().confirmation();
        let validity = Validity::of_member(self.clock.now(), &id, confirmation);
        let member = Self::of(id, self.clock, Arc::clone(&self.keeper), validity);
        let member = Arc::new(Self {
            slot: self.slot.clone(),
            part: Some((Arc::clone(self), Mutex::new(Some(part)))),
            ..member
        });
        if members.1.len() == members.1.capacity() {
            members.1.retain(|member| member.strong_count() > 0);
            // Room for as many again, so that a crowd is not searched at every member.
            let alive = members.1.len();
            members.1.reserve(alive.max(4));
        }
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

    /// Takes the member's part of the shared hold; `None` after the member's end.
    pub(crate) fn take_part(&self) -> Option<Part> {
        let (_, part) = self.part.as_ref()?;
        part.lock().take()
    }

    /// Updates the deadlines of the members.
    pub(super) fn update_members(&self) {
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
            // A member of a shared grant may be the grant of an owner.
            member.update_members();
        }
    }

    /// Ends the members, and the part of a member in its shared hold. A member that was lost alone
    /// keeps the key closed for its lock delay.
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

#[cfg(test)]
mod tests {
    use crate::{DistributedLock, LockRequest, MemoryLock, Owner};

    #[tokio::test]
    async fn ended_members_are_not_remembered() {
        let (locks, owner) = (MemoryLock::new(), Owner::new());
        let request = LockRequest::exclusive("k").unwrap().for_owner(&owner);
        let outer = locks.acquire(request.clone()).await.unwrap();
        for _ in 0..1_000 {
            drop(locks.acquire(request.clone()).await.unwrap());
        }
        let outer = outer.expect("free");
        let (whole, _) = outer.hold().part.as_ref().expect("it is a member");
        let members = whole.members.get().expect("it has members").lock();
        assert_eq!(members.0, 1_001);
        assert!(members.1.len() < 20, "{} are remembered", members.1.len());
    }
}
