//! A model of the protocol that all backends with leases follow, checked in every reachable state.
//!
//! [`protocol`] has the rules, [`state`] the states, and [`explore`] the search. The model is small
//! on purpose; the tests in `schedules` try the real code.
//!
//! Further tests leave out one rule each. They show the purpose of the rule, and that the model
//! notices.

mod explore;
mod protocol;
mod state;

use crate::explore::explore;
use crate::protocol::{Protocol, Step};
use crate::state::State;

/// Returns the shortest way to a state for which `is_wrong` is true, if there is such a state.
fn way_to(protocol: Protocol, is_wrong: impl Fn(&State) -> bool) -> Option<Vec<Step>> {
    let states = explore(&protocol, &is_wrong);
    println!("{} states", states.len());
    states.way_to(is_wrong)
}

/// Like [`way_to`], but panics unless `protocol`, which lacks a rule, leads to such a state.
fn way_without(protocol: Protocol, is_wrong: impl Fn(&State) -> bool) -> Vec<Step> {
    let way = way_to(protocol, is_wrong).expect("the rule that is missing is of use");
    println!("{way:#?}");
    way
}

/// The protocol with a resource that clients write to. Only tokens matter here, so time is coarser.
const WITH_RESOURCE: Protocol = Protocol {
    ttl: 2,
    drifts: false,
    has_resource: true,
    messages: 1,
    ..Protocol::RIGHT
};

#[test]
fn while_one_believes_that_it_holds_the_lock_the_other_does_not() {
    assert_eq!(way_to(Protocol::RIGHT, State::both_believe), None);
}

#[test]
fn whatever_has_happened_each_can_get_the_lock_again() {
    let states = explore(&Protocol::RIGHT, |_| false);
    assert!(states.len() > 10_000, "{} are not all", states.len());
    for name in 0..2 {
        let holds = |state: &State| state.believes(name).is_some();
        assert_eq!(states.way_to_the_end_of(holds), None);
    }
}

#[test]
fn nobody_writes_over_what_a_later_holder_has_written() {
    assert_eq!(way_to(WITH_RESOURCE, |state| state.is_overwritten), None);
}

#[test]
fn a_removal_lets_two_believe_and_neither_overwrite_the_other() {
    let protocol = Protocol {
        removals: true,
        ..WITH_RESOURCE
    };
    // The clients cannot know of a removal before their next request.
    let way = way_without(protocol, State::both_believe);
    assert!(way.contains(&Step::IsRemoved));
    assert_eq!(way_to(protocol, |state| state.is_overwritten), None);
}

#[test]
fn validity_that_counts_from_the_answer_ends_too_late() {
    let protocol = Protocol {
        counts_from_sending: false,
        ..Protocol::RIGHT
    };
    way_without(protocol, State::both_believe);
}

#[test]
fn validity_without_a_margin_ends_too_late_for_a_slow_clock() {
    let protocol = Protocol {
        margin: 0,
        ..Protocol::RIGHT
    };
    let way = way_without(protocol, State::both_believe);
    let first_is_slow = true;
    assert!(way.contains(&Step::Ticks { first_is_slow }));
}

#[test]
fn a_release_that_compares_nothing_removes_the_next_hold_when_it_comes_late() {
    let protocol = Protocol {
        release_compares: false,
        ..Protocol::RIGHT
    };
    way_without(protocol, State::both_believe);
}

#[test]
fn a_hold_that_does_not_expire_locks_everybody_out_after_a_crash() {
    let protocol = Protocol {
        expires: false,
        ..Protocol::RIGHT
    };
    let states = explore(&protocol, |_| false);
    let way = states.way_to_the_end_of(|state| state.believes(1).is_some());
    println!("{way:#?}");
    assert!(way.is_some());
}

#[test]
fn a_token_that_does_not_grow_lets_an_overtaken_holder_write() {
    let protocol = Protocol {
        tokens_grow: false,
        ..WITH_RESOURCE
    };
    way_without(protocol, |state| state.is_overwritten);
}

/// The holder checks the lock before it writes. In between it may stall for longer than the store
/// keeps the hold.
#[test]
fn without_a_fence_a_holder_that_stood_still_overwrites_the_next() {
    let protocol = Protocol {
        is_fenced: false,
        ..WITH_RESOURCE
    };
    way_without(protocol, |state| state.is_overwritten);
}
