//! Tests of the verdict's counts and of the picture of a violation.

use lock_testkit::history::{Effect, History};

use crate::written::{assert_fine, check, exclusive, fault, fault_of, strict};

#[test]
fn grants_losses_and_contention_are_counted() {
    let (a, b, c) = (exclusive("a", 1), exclusive("b", 1), exclusive("c", 1));
    let mut events = vec![a.asks(0), a.gets(1, 1), a.loses(100)];
    // Worker b waited for a, so its grant is contended.
    events.extend([b.asks(50), b.gets(110, 2), b.gives_back(120)]);
    events.extend([c.asks(60), c.is_refused(70)]);
    // The key was free: this grant is not contended.
    events.extend(exclusive("c", 2).has_it(200, 210, 3));
    let verdict = assert_fine(&events, &strict());
    assert_eq!((verdict.grants, verdict.losses), (3, 1));
    assert_eq!(verdict.contended_grants, 1);
}

#[test]
fn readers_are_not_in_each_others_way() {
    let mut events = exclusive("a", 1).shared().has_it(0, 100, 1);
    events.extend(exclusive("b", 1).shared().has_it(50, 150, 2));
    assert_eq!(assert_fine(&events, &strict()).contended_grants, 0);
}

#[test]
fn faults_count_when_they_strike_a_holder() {
    let mut events = exclusive("a", 1).has_it(0, 100, 1);
    events.extend([
        fault(50, 60, Effect::None),
        fault(150, 160, Effect::None),
        fault_of("a", 99, 200),
        fault_of("b", 50, 60),
    ]);
    assert_eq!(check(&events, &strict()).faults["fault"], 2);
}

#[test]
fn a_hundred_thousand_grants_are_checked_in_no_time() {
    let turns = (0..100_000).flat_map(|turn: u64| {
        let worker = ["a", "b", "c"][turn as usize % 3];
        exclusive(worker, turn).has_it(turn * 3, turn * 3 + 3, turn)
    });
    let history = History::new(turns);
    let begin = tokio::time::Instant::now();
    let verdict = history.check(&strict());
    assert_eq!(verdict.grants, 100_000);
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

#[test]
fn the_picture_shows_who_held() {
    let mut events = exclusive("1.0", 1).has_it(0, 10, 77);
    events.extend(exclusive("2.0", 1).has_it(2, 12, 78));
    events.push(fault_of("1.0", 1, 2));
    let history = History::new(events);
    let verdict = history.check(&strict());
    let picture = history.picture(&verdict.violations[0]);
    assert!(
        picture.starts_with("<svg") && picture.ends_with("</svg>\n"),
        "{picture}"
    );
    for part in [
        "worker 1.0",
        "worker 2.0",
        "token 77, given back",
        "two holders of k",
        ">fault<",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
}
