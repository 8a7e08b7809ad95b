//! Tests of the rule that every waiter is served in time after a release, a loss or a crash.

use std::time::Duration;

use lock_testkit::history::{Effect, Event, Rule};

use crate::written::{TTL, assert_breaks, assert_fine, check, end, exclusive, fault, strict};

/// The longest time in milliseconds for which a key with a waiter may have no holder.
const LIMIT: u64 = 3 * TTL + 2000;

/// Returns a history in which `ending` ends the hold of worker a at 100.
///
/// Worker b waits from 50 on and is granted the key at `served`.
fn served(ending: Event, served: u64) -> Vec<Event> {
    let (a, b) = (exclusive("a", 1), exclusive("b", 1));
    let holder = [a.asks(0), a.gets(1, 1), a.holds(99), ending];
    let waiter = [b.asks(50), b.gets(served, 2), b.gives_back(served + 10)];
    [&holder[..], &waiter].concat()
}

fn endings() -> [Event; 3] {
    let a = exclusive("a", 1);
    [a.is_killed(100), a.loses(100), a.gives_back(100)]
}

#[test]
fn whoever_waits_is_served_in_time() {
    for ending in endings() {
        assert_fine(&served(ending.clone(), 100 + LIMIT), &strict());
        assert_breaks(Rule::Recovery, 1, &served(ending, 101 + LIMIT), &strict());
    }
}

#[test]
fn the_longest_recovery_is_that_from_a_holder_that_was_lost_or_dead() {
    let [killed, lost, given_back] = endings();
    for (ending, expected) in [(killed, Some(600)), (lost, Some(600)), (given_back, None)] {
        let longest = check(&served(ending, 700), &strict()).longest_recovery;
        assert_eq!(longest, expected.map(Duration::from_millis));
    }
}

#[test]
fn it_counts_from_when_somebody_waits() {
    let a = exclusive("a", 1);
    let mut events = vec![a.asks(0), a.gets(1, 1), a.is_killed(100)];
    events.extend(exclusive("b", 1).has_it(60_000, 60_010, 2));
    let verdict = assert_fine(&events, &strict());
    assert_eq!(verdict.longest_recovery, Some(Duration::from_millis(1)));
}

#[test]
fn whoever_waits_at_the_end_was_left_behind() {
    let b = exclusive("b", 1);
    let mut events = exclusive("a", 1).has_it(0, 100, 1);
    events.push(b.asks(50));
    let at = |limit: u64| [events.clone(), vec![end(100 + limit)]].concat();
    assert_fine(&at(LIMIT), &strict());
    assert_breaks(Rule::Recovery, 1, &at(LIMIT + 1), &strict());
    // The waiter gave up, or its process died.
    for gone in [b.is_refused(500), b.is_killed(500)] {
        assert_fine(&[at(LIMIT + 1), vec![gone]].concat(), &strict());
    }
}

#[test]
fn a_key_that_nobody_ever_gets_is_noticed() {
    let b = exclusive("b", 1);
    assert_breaks(Rule::Recovery, 1, &[b.asks(0), end(LIMIT + 1)], &strict());
}

#[test]
fn faults_take_their_time() {
    let late = served(endings()[0].clone(), 400 + LIMIT);
    assert_breaks(Rule::Recovery, 1, &late, &strict());
    let excused = [late, vec![fault(1000, 1300, Effect::None)]].concat();
    assert_fine(&excused, &strict());
}

#[test]
fn a_holder_that_is_slow_is_not_a_fault() {
    let (a, b) = (exclusive("a", 1), exclusive("b", 1));
    let mut events = a.has_it(0, 60_000, 1);
    events.extend([b.asks(50), b.gets(60_010, 2), b.gives_back(60_020)]);
    assert_fine(&events, &strict());
}
