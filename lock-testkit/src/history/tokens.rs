//! Tokens that grow.

use std::collections::HashMap;

use lock_core::{FencingToken, TokenOrder};

use super::claims::{Claim, Fault, Grant, History, Key};
use super::event::Effect;
use super::rules::Rules;
use super::verdict::{Rule, Verdict, Violation};

/// How many of the low bits of a token count how often its hold was handed on.
const HAND_OFF_BITS: u32 = i64::MAX.count_ones() - FencingToken::GRANT_MAX.count_ones();

/// Looks at each grant that was asked for after another one was known: its token has to be greater.
pub(super) fn check(history: &History, key: &Key, rules: &Rules, verdict: &mut Verdict) {
    let granted = key
        .claims
        .iter()
        .filter_map(|claim| Some((claim, claim.grant?)));
    let mut granted: Vec<(&Claim, Grant)> = granted.collect();
    granted.sort_by_key(|(_, grant)| grant.at);
    let eras = Eras::between(history, |fault| breaks_off(fault, rules.tokens));
    let holds = beginnings(&granted);
    // Of all grants until the one of the same place, in its era, the one with the greatest token.
    let mut greatest: Vec<(u64, usize)> = Vec::with_capacity(granted.len());
    for (place, (claim, grant)) in granted.iter().enumerate() {
        let last = greatest
            .last()
            .filter(|_| eras.are_one(granted[place - 1].1.at, grant.at));
        // Of one that was on its way when the promise broke off, nobody knows on which side its token is.
        let begun = match rules.handed_on {
            true => holds[&(grant.token >> HAND_OFF_BITS)],
            false => claim.invoked,
        };
        let is_of_one = eras.are_one(begun, grant.at);
        let here = (if is_of_one { grant.token } else { 0 }, place);
        greatest.push(last.map_or(here, |last| here.max(*last)));
    }
    for (claim, grant) in &granted {
        let known = granted.partition_point(|(_, other)| other.at < claim.invoked);
        let Some(&(token, place)) = known.checked_sub(1).map(|last| &greatest[last]) else {
            continue;
        };
        let (holder, before) = granted[place];
        let was_removed =
            || history.is_explained_by_removal((claim, *grant), (holder, before), rules);
        let is_explained = rules.handed_on && token > grant.token && was_removed();
        if token >= grant.token && eras.are_one(before.at, grant.at) && !is_explained {
            verdict.violations.push(Violation {
                rule: Rule::Tokens,
                key: key.name.clone(),
                span: (before.at, grant.at),
                message: format!(
                    "worker {} was granted {} and then worker {} asked and was granted {}",
                    history.worker(holder.worker).name,
                    token,
                    history.worker(claim.worker).name,
                    grant.token,
                ),
            });
        }
    }
}

/// When each hold was asked for first, whoever it was handed on to later, by its number.
fn beginnings(granted: &[(&Claim, Grant)]) -> HashMap<u64, u64> {
    let mut holds = HashMap::new();
    for (claim, grant) in granted {
        let begun = holds.entry(grant.token >> HAND_OFF_BITS);
        let begun = begun.or_insert(claim.invoked);
        *begun = claim.invoked.min(*begun);
    }
    holds
}

/// The moments at which the promise that tokens grow breaks off and begins anew.
pub(super) struct Eras {
    breaks: Vec<u64>,
}

impl Eras {
    /// Those between the faults that break it off.
    pub(super) fn between(history: &History, breaks_off: impl Fn(&Fault) -> bool) -> Self {
        let broken_off = history.faults.iter().filter(|fault| breaks_off(fault));
        let mut breaks: Vec<u64> = broken_off
            .flat_map(|fault| [fault.begin, fault.end])
            .collect();
        breaks.sort_unstable();
        Self { breaks }
    }

    /// Whether the promise holds from one moment to the other.
    pub(super) fn are_one(&self, one: u64, other: u64) -> bool {
        let era = |at| self.breaks.partition_point(|moment| *moment <= at);
        era(one) == era(other)
    }
}

/// Whether nothing is promised of tokens before and after it.
fn breaks_off(fault: &Fault, promise: TokenOrder) -> bool {
    match promise {
        TokenOrder::Process => fault.effect == Effect::Forgetting,
        TokenOrder::ServerClock => fault.effect == Effect::SetBack,
        _ => false,
    }
}
