//! The rule that conflicting holders exclude each other.

use lock_core::{Mode, TokenOrder};

use super::claims::{Claim, Fault, Grant, History, Key};
use super::event::Effect;
use super::intervals::milliseconds;
use super::rules::Rules;
use super::tokens::Eras;
use super::verdict::{Rule, Verdict, Violation};

/// Checks each holder against the claims that certainly hold when it begins.
pub(super) fn check(history: &History, key: &Key, rules: &Rules, verdict: &mut Verdict) {
    let mut holders: Vec<&Claim> = key
        .claims
        .iter()
        .filter(|claim| claim.certain().is_some())
        .collect();
    holders.sort_by_key(|claim| claim.certain());
    let mut present: Vec<(&Claim, Grant)> = Vec::new();
    for claim in holders {
        let Some(grant) = claim.grant else { continue };
        present.retain(|(_, other)| other.held_until > grant.at);
        for other in in_conflict(&present, claim) {
            judge(history, key, rules, verdict, [other, (claim, grant)]);
        }
        present.push((claim, grant));
    }
}

/// Returns the present holders that conflict with `claim`.
///
/// If there are too many permits, the conflict is with the earliest grants, since the last grant
/// came after all other grants.
fn in_conflict<'a>(present: &[(&'a Claim, Grant)], claim: &Claim) -> Vec<(&'a Claim, Grant)> {
    let is_permit = |mode| matches!(mode, Mode::Permit { .. });
    let permits = |mode| match mode {
        Mode::Permit { of } => of.get() as usize,
        _ => 0,
    };
    let mut others = present.to_vec();
    if is_permit(claim.mode) {
        let beside = others.iter().filter(|(other, _)| is_permit(other.mode));
        // Each permit counts against its own number: the largest number allows for all of them.
        let most = beside.clone().map(|(other, _)| permits(other.mode)).max();
        let most = most.unwrap_or_default().max(permits(claim.mode));
        let mut too_many = (beside.count() + 1).saturating_sub(most);
        others.sort_by_key(|(_, grant)| grant.token);
        others.retain(|(other, _)| {
            let counts = !is_permit(other.mode) || too_many > 0;
            too_many -= usize::from(is_permit(other.mode) && counts);
            counts
        });
    } else {
        others.retain(|(other, _)| other.mode.conflicts_with(claim.mode));
    }
    others
}

/// Judges two conflicting claims that hold at the same time.
fn judge(
    history: &History,
    key: &Key,
    rules: &Rules,
    verdict: &mut Verdict,
    mut pair: [(&Claim, Grant); 2],
) {
    let overlap = (
        pair[0].1.at.max(pair[1].1.at),
        pair[0].1.held_until.min(pair[1].1.held_until),
    );
    // The order of the tokens is the order of the grants. If the clock behind the tokens was set
    // back, the order is unknown, since an answer may be late.
    pair.sort_by_key(|(_, grant)| grant.at);
    let sets_back =
        |fault: &Fault| rules.tokens == TokenOrder::ServerClock && fault.effect == Effect::SetBack;
    let eras = Eras::between(history, sets_back);
    let tokens_grow = eras.are_one(pair[0].0.invoked, pair[1].1.at);
    if tokens_grow {
        pair.sort_by_key(|(_, grant)| grant.token);
    }
    let [earlier, later] = pair;
    let is_explained = if tokens_grow {
        earlier.1.token < later.1.token && history.is_explained_by_removal(earlier, later, rules)
    } else {
        history.is_explained_by_removal(earlier, later, rules)
            || history.is_explained_by_removal(later, earlier, rules)
    };
    if is_explained {
        verdict.removals += 1;
        return;
    }
    let describe = |(claim, grant): (&Claim, Grant)| {
        let worker = &history.worker(claim.worker).name;
        format!("worker {worker} ({:?}, token {})", claim.mode, grant.token)
    };
    verdict.violations.push(Violation {
        rule: Rule::Exclusion,
        key: key.name.clone(),
        span: overlap,
        message: format!(
            "{} and {} both said for {} that they hold it",
            describe(earlier),
            describe(later),
            milliseconds(overlap.1 - overlap.0),
        ),
    });
}
