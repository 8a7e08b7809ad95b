//! The rule that the first claim is served first.

use lock_core::Mode;

use super::claims::{Claim, Grant, History, Key};
use super::intervals::nanoseconds;
use super::rules::Rules;
use super::verdict::{Rule, Verdict, Violation};

/// Checks exclusive claims of which the first certainly had its place before the second was made.
///
/// Invariant: a claim that was made `settled_after` before another claim is granted first. Why: the
/// claims exclude each other, so the recorded order of their grants is the real order. Breaks if: a
/// process is disturbed from `settled_after` before the first claim until the grant of the second.
/// A client that has lost its connection or session takes its place later, or once more.
pub(super) fn check(history: &History, key: &Key, rules: &Rules, verdict: &mut Verdict) {
    let Some(settled_after) = rules.settled_after.map(nanoseconds) else {
        return;
    };
    let granted = key
        .claims
        .iter()
        .filter_map(|claim| Some((claim, claim.grant?)));
    let exclusive = granted.filter(|(claim, _)| claim.mode == Mode::Exclusive);
    // In the order in which they were made, like all claims of a key.
    let claims: Vec<(&Claim, Grant)> = exclusive.collect();
    for (first, grant) in &claims {
        let has_its_place = first.invoked + settled_after;
        let made_later = claims.partition_point(|(claim, _)| claim.invoked < has_its_place);
        let until = claims.partition_point(|(claim, _)| claim.invoked < grant.at);
        let rest = claims.get(made_later..until).unwrap_or_default();
        let since = first.invoked.saturating_sub(settled_after);
        let untroubled = |served: u64| !history.troubles.touches(since, served);
        // Report at most one overtaking claim for each claim.
        let overtaker = rest
            .iter()
            .find(|(_, served)| served.at < grant.at && untroubled(served.at));
        if let Some((later, served)) = overtaker {
            let name = |claim: &Claim| &history.worker(claim.worker).name;
            verdict.violations.push(Violation {
                rule: Rule::Order,
                key: key.name.clone(),
                span: (first.invoked, served.at),
                message: format!(
                    "worker {} asked, {} ms later worker {} did, which was served first",
                    name(first),
                    (later.invoked - first.invoked) / 1_000_000,
                    name(later),
                ),
            });
        }
    }
}
