//! Holders that cannot know yet that their hold was removed from the store.

use lock_core::Mode;

use super::claims::{Claim, Fault, Grant, History};
use super::intervals::nanoseconds;
use super::rules::Rules;

impl History {
    /// Returns true if a removal explains that `earlier` was still held when `later` was.
    ///
    /// The fault has to affect the earlier holder or all processes, between both grants. The caller
    /// checks that the later token is greater.
    ///
    /// The earlier holder has to notice the loss within a third of its ttl and a round trip. Times
    /// of faults on that holder or on the store, and stalls, come on top, since it cannot notice a
    /// loss then. Its ttl is the limit in any case, since a confirmation from before the removal
    /// lasts no longer.
    ///
    /// Where holds are handed on, the earlier claim may be made after the removal, and still get a
    /// hold from before it.
    pub(super) fn is_explained_by_removal(
        &self,
        (earlier, before): (&Claim, Grant),
        (_, after): (&Claim, Grant),
        rules: &Rules,
    ) -> bool {
        let is_handed_on = rules.handed_on && earlier.mode == Mode::Exclusive;
        let explains = |fault: &Fault| {
            let may_be_struck = is_handed_on || earlier.invoked <= fault.end;
            let is_between = fault.effect.removes() && may_be_struck && fault.begin <= after.at;
            let is_its_own = fault.worker.is_none_or(|worker| worker == earlier.worker);
            let troubles = &self.worker(earlier.worker).troubles;
            let until = before.held_until;
            let excused = troubles.within(fault.end, until) + self.silence.within(fault.end, until);
            let limit = earlier.ttl / 3 + nanoseconds(rules.round_trip) + excused;
            is_between && is_its_own && until <= fault.end + limit.min(earlier.ttl)
        };
        self.faults.iter().any(explains)
    }
}
