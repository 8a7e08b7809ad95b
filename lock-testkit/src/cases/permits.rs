//! Permits: as many as their number allows.

use std::time::Duration;

use lock_core::Wait;

use super::modes::all_enter_together;
use crate::bench::{Bench, permit};
use crate::client::{Client, release};
use crate::eventually::within;

pub(crate) async fn permits_up_to_their_number(bench: Bench) {
    let clients: [Client; 3] = bench.clients().await;
    let request = bench.request("pool", permit(4));
    let mut guards = Vec::new();
    for number in 0..4 {
        let guard = clients[number % clients.len()].take(&request).await;
        assert_eq!(guard.mode(), permit(4));
        guards.push(guard);
    }
    for client in &clients {
        client.is_refused(&request, "4 permits are taken").await;
    }
    let waiting = clients[1].line_up(&request).await;
    release(guards.swap_remove(2)).await;
    let what = "a waiter served after a permit came back";
    let next = clients[1].served(waiting, what).await;
    clients[0].is_refused(&request, "4 permits are taken").await;
    drop(guards);
    drop(next);
    let request = bench.request("pool", permit(1));
    let single = clients[2].wait_for(&request).await;
    clients[0].is_refused(&request, "1 permit is taken").await;
    drop(single);
}

pub(crate) async fn waiters_get_all_permits_that_come_back(bench: Bench) {
    let [holder, one, other] = bench.clients().await;
    let request = bench.request("pool", permit(6));
    let mut guards = Vec::new();
    for _ in 0..6 {
        guards.push(holder.take(&request).await);
    }
    let what = "as many waiters in as permits came back";
    all_enter_together(&bench, &[one, other], &request, guards, what).await;
}

pub(crate) async fn each_permit_counts_against_its_own_number(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let of = |number| bench.request("pool", permit(number));
    let first = ours.take(&of(3)).await;
    let second = theirs.take(&of(3)).await;
    ours.is_refused(&of(2), "2 permits are held").await;
    let third = ours.take(&of(3)).await;
    theirs.is_refused(&of(3), "3 permits are held").await;
    let fourth = theirs.take(&of(5)).await;
    theirs.is_refused(&of(4), "4 permits are held").await;
    for guard in [first, second, third] {
        release(guard).await;
    }
    ours.is_refused(&of(1), "1 permit is held").await;
    let second = ours.take(&of(2)).await;
    assert!(fourth.is_held() && second.is_held());
}

pub(crate) async fn one_of_many_does_not_overtake_one_of_few(bench: Bench) {
    let [holder, few, many] = bench.clients().await;
    let of = |number| bench.request("pool", permit(number));
    let first = holder.take(&of(2)).await;
    let second = holder.take(&of(2)).await;
    let waits_for_one_of_two = bench.line_up(&few, &of(2)).await;
    let waits_for_one_of_four = bench.line_up(&many, &of(4)).await;
    release(first).await;
    let what = "the first in line served";
    let third = few.served(waits_for_one_of_two, what).await;
    let what = "the next in line served, whose number is not reached";
    let fourth = many.served(waits_for_one_of_four, what).await;
    assert!(third.token() < fourth.token());
    assert!(second.is_held() && third.is_held() && fourth.is_held());
}

pub(crate) async fn a_crashed_permit_comes_back(bench: Bench) {
    let client = bench.client().await;
    if !bench.crash(bench.brief("pool", permit(1))).await {
        return;
    }
    let request = bench.request("pool", permit(1));
    client
        .is_refused(&request, "a client crashed with it")
        .await;
    let waiting = client.acquire(request.with_wait(Wait::Forever));
    let limit = bench.short() * 3 / 2 + Duration::from_secs(1);
    drop(within(limit, "the permit of a crashed client back", waiting).await);
}
