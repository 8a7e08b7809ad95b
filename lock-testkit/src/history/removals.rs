//! Holders that cannot know yet that the store has forgotten them.

use lock_core::Mode;

use super::claims::{Claim, Fault, Grant, History};
use super::intervals::nanoseconds;
use super::rules::Rules;

impl History {
    /// Whether a removal on the store explains that `earlier` still said that it is held when `later` did
    /// so, too: it struck the earlier holder or everybody between the two grants, the later one has the greater
    /// token, and the earlier holder learned of it within a third of its ttl and a round trip. While it or the
    /// store was troubled, or the machine stood still, it could not learn anything; but what was confirmed before
    /// the removal lasts for a ttl at most. Where holds are handed on, the earlier one may have asked after the removal
    /// and still have been given a hold from before it.
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
