//! Tests of the rule that the first claim is served first, if the store promises it.

use lock_testkit::history::{Effect, Event, Rule};

use crate::written::{assert_breaks, assert_fine, exclusive, fault, stall, strict};

/// Returns a history in which worker a asks at 4010 and b at `later`, and b is served first.
///
/// Another worker holds the key until 6000.
fn overtaken(later: u64) -> Vec<Event> {
    let (a, b) = (exclusive("a", 1), exclusive("b", 1));
    let mut events = exclusive("holder", 1).has_it(0, 6000, 1);
    events.extend([a.asks(4010), b.asks(later)]);
    events.extend([b.gets(6001, 2), b.gives_back(6010)]);
    events.extend([a.gets(6012, 3), a.gives_back(6020)]);
    events
}

#[test]
fn who_came_much_later_may_not_be_served_first() {
    assert_breaks(Rule::Order, 1, &overtaken(5510), &strict());
}

#[test]
fn of_those_who_came_together_either_may_be_first() {
    assert_fine(&overtaken(5509), &strict());
}

#[test]
fn nothing_is_said_where_it_is_not_promised() {
    let mut rules = strict();
    rules.settled_after = None;
    assert_fine(&overtaken(5600), &rules);
}

#[test]
fn whoever_was_troubled_may_have_lost_its_place() {
    for trouble in [fault(2510, 2520, Effect::None), stall(5990, 5995)] {
        assert_fine(&[overtaken(5600), vec![trouble]].concat(), &strict());
    }
    let before = vec![fault(2500, 2509, Effect::None)];
    assert_breaks(
        Rule::Order,
        1,
        &[overtaken(5600), before].concat(),
        &strict(),
    );
}

#[test]
fn served_in_the_order_of_arrival_is_fine() {
    let (a, b) = (exclusive("a", 1), exclusive("b", 1));
    let mut events = exclusive("holder", 1).has_it(0, 6000, 1);
    events.extend([a.asks(4010), b.asks(5600)]);
    events.extend([a.gets(6001, 2), a.gives_back(6010)]);
    events.extend([b.gets(6012, 3), b.gives_back(6020)]);
    assert_fine(&events, &strict());
}

#[test]
fn a_try_that_overtakes_is_noticed_too() {
    let mut events = overtaken(9000);
    events.retain(|event| event.worker.as_deref() != Some("b"));
    events.extend(exclusive("b", 1).has_it(6002, 6008, 2));
    assert_breaks(Rule::Order, 1, &events, &strict());
}
