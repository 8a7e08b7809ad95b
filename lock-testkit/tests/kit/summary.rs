//! Tests of the summary that a run prints at its end.

use std::process::Command;

use lock_testkit::{Case, Group, Need, Outcome, Summary, cases};

fn named(name: &str) -> Case {
    let named = |case: &Case| case.to_string() == name;
    cases().into_iter().find(named).expect("it is in the kit")
}

#[test]
fn tells_what_was_skipped_and_why() {
    let summary: Summary = [
        ("waiting::every_waiter_is_served", Outcome::Proved),
        ("modes::readers_share", Outcome::Unsupported(Need::Shared)),
        (
            "lease::a_removal_is_noticed",
            Outcome::Skipped(Need::Remove),
        ),
        (
            "fencing::tokens_grow_after_a_removal",
            Outcome::Skipped(Need::Remove),
        ),
    ]
    .into_iter()
    .map(|(name, outcome)| (named(name), outcome))
    .collect();
    assert_eq!((summary.proved().len(), summary.skipped().len()), (1, 3));
    let expected = "1 proved, 3 skipped
  1 skipped, the backend declares no shared locks, and refuses them: modes::readers_share
  2 skipped, the store under test removes no hold (Store::remove): \
         fencing::tokens_grow_after_a_removal, lease::a_removal_is_noticed";
    assert_eq!(summary.to_string(), expected);
}

#[test]
fn a_group_of_which_all_is_skipped_is_named_once() {
    let mut of_group = cases();
    of_group.retain(|case| case.group == Group::Processes);
    let outcome = Outcome::Skipped(Need::Processes);
    let skipped = of_group.iter().map(|case| (*case, outcome));
    let text = skipped.collect::<Summary>().to_string();
    let end = format!("(Store::address): processes (all {})", of_group.len());
    assert!(text.ends_with(&end), "{text}");
}

/// Runs some cases, which all pass, in a process of this test's program.
#[test]
fn the_harness_shows_it_when_the_last_test_has_ended() {
    let program = std::env::current_exe().expect("a running program has a path");
    let run = Command::new(program)
        .args(["modest::fencing", "--test-threads", "3"])
        .output()
        .expect("the system starts a process");
    assert!(run.status.success(), "{run:?}");
    let said = String::from_utf8_lossy(&run.stderr);
    let (before, _) = said.split_once("kit::modest: ").expect(&said);
    assert!(!before.contains("proved"), "too early: {said}");
    let of_all = "5 proved, 2 skipped\n  1 skipped, the store under test ";
    assert!(said.contains(of_all), "{said}");
    assert_eq!(said.matches("proved").count(), 1, "told twice: {said}");
}
