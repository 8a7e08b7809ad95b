//! Which grants somebody had to wait for.

use lock_core::Mode;

use super::claims::{Claim, Key};

/// How many claims were granted after a holder had been in their way while they asked.
///
/// Of each holder only the moments count at which it is known to have held, the one of its grant included.
pub(super) fn contended(key: &Key) -> usize {
    let mut holders: Vec<&Claim> = key
        .claims
        .iter()
        .filter(|claim| claim.grant.is_some())
        .collect();
    holders.sort_by_key(|claim| claim.grant.map(|grant| grant.at));
    let at = |claim: &Claim| claim.grant.map_or(0, |grant| grant.at);
    // The last moment at which any of the first so many is known to have held.
    let mut last = Vec::with_capacity(holders.len());
    for holder in &holders {
        let until = holder.grant.map_or(0, |grant| grant.held_until);
        last.push(until.max(last.last().copied().unwrap_or_default()));
    }
    let is_contended = |claim: &&Claim| {
        let granted_before = holders.partition_point(|other| at(other) < at(claim));
        // Nobody of these can have been in the way: they had all ended.
        let first = last[..granted_before].partition_point(|until| *until < claim.invoked);
        holders[first..granted_before]
            .iter()
            .rev()
            .any(|other| is_in_the_way(other, claim))
    };
    holders.iter().copied().filter(is_contended).count()
}

/// Whether `holder`, which was granted before, held while `claim` asked, and kept it waiting.
fn is_in_the_way(holder: &Claim, claim: &Claim) -> bool {
    let conflict = match (holder.mode, claim.mode) {
        // How many there may be is another question; that one was there is enough.
        (Mode::Permit { .. }, Mode::Permit { of }) => of.get() == 1,
        (one, other) => one.conflicts_with(other),
    };
    conflict
        && holder
            .grant
            .is_some_and(|grant| grant.held_until >= claim.invoked)
}
