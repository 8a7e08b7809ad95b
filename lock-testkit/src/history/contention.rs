//! The grants that had to wait for a holder.

use lock_core::Mode;

use super::claims::{Claim, Key};

/// Counts the claims that were granted after a holder had blocked them.
///
/// A holder counts only at times at which it certainly held, including the time of its grant.
pub(super) fn contended(key: &Key) -> usize {
    let mut holders: Vec<&Claim> = key
        .claims
        .iter()
        .filter(|claim| claim.grant.is_some())
        .collect();
    holders.sort_by_key(|claim| claim.grant.map(|grant| grant.at));
    let at = |claim: &Claim| claim.grant.map_or(0, |grant| grant.at);
    // For each holder, the last time at which it or an earlier holder certainly held.
    let mut last = Vec::with_capacity(holders.len());
    for holder in &holders {
        let until = holder.grant.map_or(0, |grant| grant.held_until);
        last.push(until.max(last.last().copied().unwrap_or_default()));
    }
    let is_contended = |claim: &&Claim| {
        let granted_before = holders.partition_point(|other| at(other) < at(claim));
        // Skip the first holders: all of them had ended before the claim was made.
        let first = last[..granted_before].partition_point(|until| *until < claim.invoked);
        holders[first..granted_before]
            .iter()
            .rev()
            .any(|other| is_in_the_way(other, claim))
    };
    holders.iter().copied().filter(is_contended).count()
}

/// Returns true if `holder`, granted before `claim`, held while `claim` waited and blocked it.
fn is_in_the_way(holder: &Claim, claim: &Claim) -> bool {
    let conflict = match (holder.mode, claim.mode) {
        // Other permits are not counted, so a permit certainly blocks only a claim for 1 permit.
        (Mode::Permit { .. }, Mode::Permit { of }) => of.get() == 1,
        (one, other) => one.conflicts_with(other),
    };
    conflict
        && holder
            .grant
            .is_some_and(|grant| grant.held_until >= claim.invoked)
}
