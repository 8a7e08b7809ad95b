//! Leaders in other processes, which are killed and stopped.

use std::pin::pin;

use lock_core::{Election, Mode};
use tokio::task::block_in_place;
use tokio::time::Instant;
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

pub(crate) async fn an_observer_sees_who_follows_a_killed_leader(bench: Bench) {
    let client = bench.client().await;
    let election = candidate(&client, bench.short());
    let election = election.identity("follower").expect("a name");
    let mut leaders = election.observe();
    let request = bench.brief(NAME, Mode::Exclusive);
    let request = request.labelled("killed").expect("a name");
    let (mut child, number) = bench.holder(&request, Role::Lead);
    let first = within(bench.prompt(), "the leader observed", leaders.next()).await;
    let first = first.expect("no end").expect("the store runs");
    assert_eq!(first.number, number, "{first:?}");
    assert_eq!(first.identity.as_deref(), Some("killed"), "{first:?}");
    block_in_place(|| child.kill());
    let what = "a killed leader waited out";
    let term = within(bench.short() + SLACK, what, election.campaign()).await;
    let term = term.expect("the store runs");
    let began = Instant::now();
    let next = within(bench.prompt(), "the next leader observed", leaders.next()).await;
    let next = next.expect("no end").expect("the store runs");
    assert_eq!(next.number, term.number(), "after {:?}", began.elapsed());
    assert_eq!(next.identity.as_deref(), Some("follower"), "{next:?}");
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
