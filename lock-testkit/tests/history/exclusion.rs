//! Tests of the rule that conflicting holders exclude each other.

use lock_testkit::history::{Effect, Event, Happening, Rule};

use crate::written::{
    Claim, assert_breaks, assert_fine, check, exclusive, fault, fault_of, stall, strict,
};

const A: fn() -> Claim = || exclusive("a", 1);
const B: fn() -> Claim = || exclusive("b", 1);

fn both(one: Vec<Event>, other: Vec<Event>) -> Vec<Event> {
    [one, other].concat()
}

#[test]
fn one_after_the_other_is_fine() {
    let verdict = assert_fine(
        &both(A().has_it(0, 10, 1), B().has_it(10, 20, 2)),
        &strict(),
    );
    assert_eq!((verdict.grants, verdict.removals), (2, 0));
}

#[test]
fn two_at_a_time_are_not() {
    let events = both(A().has_it(0, 10, 1), B().has_it(2, 12, 2));
    assert_breaks(Rule::Exclusion, 1, &events, &strict());
    let violation = &check(&events, &strict()).violations[0];
    assert_eq!(violation.span, (3_000_000, 9_000_000));
    let message = violation.to_string();
    assert!(
        message.starts_with("two holders of k: worker a (Exclusive, token 1)"),
        "{message}"
    );
}

#[test]
fn one_within_the_other_is_not_fine_either() {
    let events = both(A().has_it(0, 100, 1), B().has_it(40, 50, 2));
    assert_breaks(Rule::Exclusion, 1, &events, &strict());
}

#[test]
fn only_what_a_guard_said_counts() {
    let (a, b) = (A(), B());
    // Worker a checked its guard at 5 for the last time, and its process was killed at 100.
    let silent = [a.asks(0), a.gets(1, 1), a.holds(5), a.is_killed(100)];
    assert_fine(&both(silent.to_vec(), b.has_it(6, 12, 2)), &strict());
    let held = [a.asks(0), a.gets(1, 1), a.holds(9), a.is_killed(100)];
    assert_breaks(
        Rule::Exclusion,
        1,
        &both(held.to_vec(), b.has_it(6, 12, 2)),
        &strict(),
    );
}

#[test]
fn other_keys_do_not_matter() {
    let other = B().of_key("other").has_it(2, 12, 2);
    assert_fine(&both(A().has_it(0, 10, 1), other), &strict());
}

#[test]
fn readers_may_share_and_a_writer_may_not() {
    let readers = both(A().shared().has_it(0, 10, 1), B().shared().has_it(2, 12, 2));
    assert_fine(&readers, &strict());
    let writer = exclusive("c", 1).has_it(4, 8, 3);
    assert_breaks(Rule::Exclusion, 2, &both(readers, writer), &strict());
}

#[test]
fn permits_are_counted() {
    let permit = |worker, from, token| exclusive(worker, 1).permit(2).has_it(from, 20, token);
    let two = both(permit("a", 0, 1), permit("b", 2, 2));
    assert_fine(&two, &strict());
    assert_breaks(
        Rule::Exclusion,
        1,
        &both(two.clone(), permit("c", 4, 3)),
        &strict(),
    );
    // Each permit counts against its own number.
    let larger = exclusive("c", 1).permit(3).has_it(4, 20, 3);
    assert_fine(&both(two.clone(), larger), &strict());
    let reader = exclusive("c", 1).shared().has_it(4, 20, 3);
    assert_breaks(Rule::Exclusion, 2, &both(two, reader), &strict());
}

/// Returns a history in which worker a reports its loss at `lost`, and b holds from 111 to 2000.
///
/// The tests add a fault that removes the hold of worker a at 100.
fn removed(lost: u64, tokens: [u64; 2]) -> Vec<Event> {
    let a = A();
    let holder = vec![a.asks(0), a.gets(1, tokens[0]), a.loses(lost)];
    both(holder, B().has_it(110, 2000, tokens[1]))
}

#[test]
fn a_removal_explains_two_holders_for_a_third_of_the_ttl_and_a_round_trip() {
    let removal = |effect| vec![fault(100, 101, effect)];
    for effect in [Effect::Removal, Effect::Forgetting] {
        let verdict = assert_fine(&both(removed(902, [1, 2]), removal(effect)), &strict());
        assert_eq!(verdict.removals, 1);
    }
    // 1 ms past the limit: a third of the ttl (300 ms) and a round trip (500 ms) from 101 on.
    let late = both(removed(903, [1, 2]), removal(Effect::Removal));
    assert_breaks(Rule::Exclusion, 1, &late, &strict());
    let none = both(removed(902, [1, 2]), removal(Effect::None));
    assert_breaks(Rule::Exclusion, 1, &none, &strict());
}

#[test]
fn the_later_of_the_two_needs_the_greater_token() {
    let mut rules = strict();
    rules.tokens = lock_core::TokenOrder::Process;
    let removal = vec![fault(100, 101, Effect::Forgetting)];
    // The lower token makes b the earlier holder, and b began after the removal. So the removal
    // explains nothing.
    assert_breaks(
        Rule::Exclusion,
        1,
        &both(removed(400, [2, 1]), removal),
        &rules,
    );
}

#[test]
fn of_tokens_before_and_after_a_clock_was_set_back_nothing_is_promised() {
    let mut rules = strict();
    let events = [
        fault(50, 51, Effect::Removal),
        fault(100, 101, Effect::SetBack),
    ];
    let events = both(removed(400, [2, 1]), events.to_vec());
    let broken = check(&events, &rules).violations;
    assert!(broken.iter().any(|one| one.rule == Rule::Exclusion));
    rules.tokens = lock_core::TokenOrder::ServerClock;
    assert_fine(&events, &rules);
}

#[test]
fn where_tokens_tell_nothing_the_one_that_was_removed_may_have_been_answered_later() {
    let (a, b) = (A(), B());
    let mut removal = fault_of("a", 105, 106);
    if let Happening::Fault { effect, .. } = &mut removal.what {
        *effect = Effect::Removal;
    }
    let answered_late = vec![a.asks(0), a.gets(120, 2), a.loses(200)];
    let other = vec![b.asks(10), b.gets(115, 1), b.loses(300)];
    let mut events = [answered_late, other, vec![removal]].concat();
    let mut rules = strict();
    rules.tokens = lock_core::TokenOrder::ServerClock;
    let broken = check(&events, &rules).violations;
    assert!(broken.iter().any(|one| one.rule == Rule::Exclusion));
    events.push(fault(100, 101, Effect::SetBack));
    assert_fine(&events, &rules);
}

#[test]
fn a_removal_explains_only_what_came_before_it() {
    let after = vec![fault(300, 301, Effect::Removal)];
    assert_breaks(
        Rule::Exclusion,
        1,
        &both(removed(400, [1, 2]), after),
        &strict(),
    );
    let a = A();
    let holder = vec![a.asks(120), a.gets(121, 3), a.loses(400)];
    let before = both(holder, B().has_it(110, 2000, 2));
    let removal = vec![fault(100, 101, Effect::Removal)];
    assert_breaks(Rule::Exclusion, 1, &both(before, removal), &strict());
}

#[test]
fn a_hold_that_was_removed_may_still_be_handed_on_until_its_process_learns_of_it() {
    let mut rules = strict();
    let removal = vec![fault(100, 101, Effect::Removal)];
    let b = B().has_it(110, 2000, 20);
    // The process of worker a held the key before the removal, with token 10.
    let handed_on = |lost| {
        let (a, had) = (A(), exclusive("a", 2).has_it(0, 120, 10));
        let next = vec![a.asks(125), a.gets(126, 11), a.loses(lost)];
        both(both(had, next), both(b.clone(), removal.clone()))
    };
    let broken = check(&handed_on(400), &rules).violations;
    assert!(broken.iter().any(|one| one.rule == Rule::Exclusion));
    assert!(broken.iter().any(|one| one.rule == Rule::Tokens));
    rules.handed_on = true;
    assert_eq!(assert_fine(&handed_on(902), &rules).removals, 2);
    let late = check(&handed_on(903), &rules).violations;
    assert!(late.iter().any(|one| one.rule == Rule::Exclusion));
}

#[test]
fn a_removal_of_one_workers_holds_explains_nothing_of_others() {
    for (worker, violations) in [("a", 0), ("b", 1)] {
        let mut removal = fault_of(worker, 100, 101);
        if let Happening::Fault { effect, .. } = &mut removal.what {
            *effect = Effect::Removal;
        }
        let events = both(removed(400, [1, 2]), vec![removal]);
        assert_eq!(check(&events, &strict()).violations.len(), violations);
    }
}

#[test]
fn who_is_cut_off_learns_of_a_removal_later() {
    let removal = fault(100, 101, Effect::Removal);
    let late = both(removed(1000, [1, 2]), vec![removal]);
    let stop = fault(200, 300, Effect::None);
    for excuse in [fault_of("a", 200, 300), stall(200, 300), stop.clone()] {
        assert_fine(&both(late.clone(), vec![excuse]), &strict());
    }
    // No fault excuses more: a hold that was confirmed before the removal ends a ttl later.
    let removal = fault(100, 101, Effect::Removal);
    let too_late = both(removed(1003, [1, 2]), vec![removal, stop]);
    assert_breaks(Rule::Exclusion, 1, &too_late, &strict());
    let of_another = vec![fault_of("b", 200, 300)];
    assert_breaks(Rule::Exclusion, 1, &both(late, of_another), &strict());
}
