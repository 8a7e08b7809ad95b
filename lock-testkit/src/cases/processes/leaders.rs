//! Leaders in other processes, which are killed and stopped.

use std::pin::pin;

use lock_core::{Election, Mode};
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};

use super::SLACK;
use crate::bench::Bench;
use crate::cases::elections::{NAME, candidate};
use crate::client::SETTLE;
use crate::eventually::within;
use crate::processes::{Child, Role};

pub(crate) async fn a_killed_leader_is_followed_within_its_term(bench: Bench) {
    let client = bench.client().await;
    let election = candidate(&client, bench.short());
    let request = bench.brief(NAME, Mode::Exclusive);
    let (mut child, number) = bench.holder(&request, Role::Lead);
    let early = timeout(bench.short() * 3 / 2, election.campaign()).await;
    assert!(early.is_err(), "a living leader is renewed: {early:?}");
    is_followed_after_a_kill(&bench, &election, &mut child, number).await;
}

/// Kills a leader, and asserts that the next candidate leads within a term.
async fn is_followed_after_a_kill(
    bench: &Bench,
    election: &Election,
    child: &mut Child,
    number: u64,
) {
    let mut campaign = pin!(election.campaign());
    let early = timeout(SETTLE, &mut campaign).await;
    assert!(early.is_err(), "two leaders: {early:?}");
    block_in_place(|| child.kill());
    let what = "a killed leader waited out";
    let term = within(bench.short() + SLACK, what, campaign).await;
    let term = term.expect("the store runs");
    assert!(term.number() > number, "the numbers of terms go back");
    term.resign().await.expect("the store runs");
}

pub(crate) async fn a_leader_that_stood_still_does_not_go_on(bench: Bench) {
    let client = bench.client().await;
    let election = candidate(&client, bench.short());
    let request = bench.brief(NAME, Mode::Exclusive);
    let (mut child, number) = bench.holder(&request, Role::Lead);
    // No check of its term is under way then, which would be followed by a poll after the stop.
    sleep(bench.short() / 6).await;
    block_in_place(|| child.freeze());
    let what = "a leader that stands still waited out";
    let term = within(bench.short() + SLACK, what, election.campaign()).await;
    let term = term.expect("the store runs");
    assert!(term.number() > number, "the numbers of terms go back");
    sleep(bench.short()).await;
    block_in_place(|| child.thaw());
    let end = block_in_place(|| child.says());
    assert_eq!(end, "over 0", "it works on while the next one leads");
    term.resign().await.expect("the store runs");
    let again = block_in_place(|| child.token());
    assert!(again > number, "the numbers of terms go back");
    is_followed_after_a_kill(&bench, &election, &mut child, again).await;
}
