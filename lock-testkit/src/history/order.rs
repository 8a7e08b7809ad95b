//! Who came first is served first.

use lock_core::Mode;

use super::claims::{Claim, Grant, History, Key};
use super::intervals::nanoseconds;
use super::rules::Rules;
use super::verdict::{Rule, Verdict, Violation};

/// Looks at exclusive claims of which one certainly had its place before the other was made.
///
/// That nobody was troubled from some time before the first was made until the other was granted is part of
/// the certainty: whoever has lost its connection or session takes its place later, or once more. And that they exclude each other:
/// who was seen to be granted first was granted first, since one had ended before the other began.
pub(super) fn check(history: &History, key: &Key, rules: &Rules, verdict: &mut Verdict) {
    let Some(settled_after) = rules.settled_after.map(nanoseconds) else {
        return;
    };
    let granted = key
        .claims
        .iter()
        .filter_map(|claim| Some((claim, claim.grant?)));
    let exclusive = granted.filter(|(claim, _)| claim.mode == Mode::Exclusive);
    // In the order in which they were made, as all claims of a key are.
    let claims: Vec<(&Claim, Grant)> = exclusive.collect();
    for (first, grant) in &claims {
        let has_its_place = first.invoked + settled_after;
        let made_later = claims.partition_point(|(claim, _)| claim.invoked < has_its_place);
        let until = claims.partition_point(|(claim, _)| claim.invoked < grant.at);
        let rest = claims.get(made_later..until).unwrap_or_default();
        let since = first.invoked.saturating_sub(settled_after);
        let untroubled = |served: u64| !history.troubles.touches(since, served);
        // One is enough to tell of.
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
