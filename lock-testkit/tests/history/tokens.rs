//! Tests of the rule that tokens grow, as far as the store promises it.

use lock_core::TokenOrder;
use lock_testkit::history::{Effect, Event, Rule, Rules};

use crate::written::{assert_breaks, assert_fine, exclusive, fault, strict};

fn one_after_the_other(tokens: [u64; 2]) -> Vec<Event> {
    let first = exclusive("a", 1).has_it(0, 10, tokens[0]);
    [first, exclusive("b", 1).has_it(20, 30, tokens[1])].concat()
}

fn rules(tokens: TokenOrder) -> Rules {
    let mut rules = strict();
    rules.tokens = tokens;
    rules
}

#[test]
fn a_later_grant_has_a_greater_token() {
    assert_fine(&one_after_the_other([1, 2]), &strict());
    for tokens in [[1, 1], [2, 1]] {
        assert_breaks(Rule::Tokens, 1, &one_after_the_other(tokens), &strict());
    }
}

#[test]
fn the_greatest_of_all_before_counts() {
    let mut events = one_after_the_other([5, 7]);
    events.extend(exclusive("c", 1).has_it(40, 50, 6));
    events.extend(exclusive("c", 2).has_it(60, 70, 8));
    assert_breaks(Rule::Tokens, 1, &events, &strict());
}

#[test]
fn readers_have_tokens_too() {
    let one = exclusive("a", 1).shared().has_it(0, 10, 2);
    let other = exclusive("b", 1).shared().has_it(5, 10, 2);
    assert_breaks(Rule::Tokens, 1, &[one, other].concat(), &strict());
}

#[test]
fn nothing_is_said_of_grants_whose_order_is_unknown() {
    let (a, b) = (exclusive("a", 1), exclusive("b", 1));
    // Worker b asked before worker a was granted, so the store may have granted b first.
    let mut events = vec![a.asks(0), b.asks(0), a.gets(8, 2), b.gets(9, 1)];
    assert_fine(&events, &strict());
    events.extend(exclusive("c", 1).has_it(10, 20, 1));
    assert_breaks(Rule::Tokens, 1, &events, &strict());
}

#[test]
fn other_keys_have_tokens_of_their_own() {
    let mut events = exclusive("a", 1).has_it(0, 10, 2);
    events.extend(exclusive("b", 1).of_key("other").has_it(20, 30, 1));
    assert_fine(&events, &strict());
}

#[test]
fn a_store_may_forget_only_what_it_did_not_promise() {
    let with = |effect| [one_after_the_other([2, 1]), vec![fault(15, 16, effect)]].concat();
    assert_fine(&with(Effect::Forgetting), &rules(TokenOrder::Process));
    assert_fine(&with(Effect::SetBack), &rules(TokenOrder::ServerClock));
    for (promise, effect) in [
        (TokenOrder::Always, Effect::Forgetting),
        (TokenOrder::Always, Effect::SetBack),
        (TokenOrder::ServerClock, Effect::Forgetting),
        (TokenOrder::ServerClock, Effect::Removal),
        (TokenOrder::Process, Effect::Removal),
    ] {
        assert_breaks(Rule::Tokens, 1, &with(effect), &rules(promise));
    }
}

#[test]
fn what_comes_after_a_loss_of_memory_grows_again() {
    let mut events = one_after_the_other([9, 1]);
    events.push(fault(15, 16, Effect::Forgetting));
    events.extend(exclusive("c", 1).has_it(40, 50, 1));
    assert_breaks(Rule::Tokens, 1, &events, &rules(TokenOrder::Process));
}

/// The hold of worker a keeps the grant number from the time before the clock was set back.
#[test]
fn a_hold_that_is_handed_on_keeps_its_number_when_the_clock_is_set_back() {
    let mut rules = rules(TokenOrder::ServerClock);
    let (one, two) = (2 << 14, 1 << 14);
    let mut events = exclusive("a", 1).has_it(0, 10, one);
    events.push(fault(20, 21, Effect::SetBack));
    events.extend(exclusive("a", 2).has_it(30, 40, one + 1));
    events.extend(exclusive("b", 1).has_it(50, 60, two));
    assert_breaks(Rule::Tokens, 1, &events, &rules);
    rules.handed_on = true;
    assert_fine(&events, &rules);
    events.extend(exclusive("b", 2).has_it(70, 80, two));
    assert_breaks(Rule::Tokens, 1, &events, &rules);
}
