//! Permits: as many as their number allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{LockGuard, Wait};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::modes::all_enter_together;
use crate::assert_excluded;
use crate::bench::{Bench, permit};
use crate::client::{Client, release};
use crate::eventually::within;
use crate::join::join_all;

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

pub(crate) async fn each_permit_has_a_slot_of_its_own(bench: Bench) {
    let clients: [Client; 3] = bench.clients().await;
    let of = |number| bench.request("pool", permit(number));
    let mut guards = Vec::new();
    for number in 0..4 {
        guards.push(clients[number % clients.len()].take(&of(4)).await);
    }
    let mut slots: Vec<u32> = guards.iter().filter_map(LockGuard::slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3]);
    let freed = guards.swap_remove(1);
    let slot = freed.slot();
    release(freed).await;
    let next = clients[0].take(&of(4)).await;
    assert_eq!(next.slot(), slot, "the only free slot");
    guards.push(next);
    // The two greatest slots stay, and a claim for one of three gets one below its number.
    guards.sort_by_key(LockGuard::slot);
    for guard in guards.drain(..2) {
        release(guard).await;
    }
    let third = clients[1].take(&of(3)).await;
    let free = third.slot().is_some_and(|slot| slot < 2);
    assert!(free, "{third:?} has the slot {:?}", third.slot());
    let exclusive = clients[0].take(&bench.exclusive("other")).await;
    assert_eq!(exclusive.slot(), None);
}

pub(crate) async fn slots_never_repeat_under_contention(bench: Bench) {
    const OF: usize = 4;
    let clients: [Client; 3] = bench.clients().await;
    let taken: Arc<[AtomicBool; OF]> = Arc::default();
    let mut tasks = JoinSet::new();
    for task in 0..12 {
        let client = clients[task % clients.len()].clone();
        let request = bench.request("pool", permit(OF as u32));
        let (taken, mut random) = (Arc::clone(&taken), bench.random(task as u64));
        tasks.spawn(async move {
            for _ in 0..8 {
                let waiting = request.clone().with_wait(Wait::Forever);
                let guard = client.acquire(waiting).await.expect("no end");
                let slot = guard.slot().expect("a permit has a slot") as usize;
                let was_taken = taken[slot].swap(true, Ordering::SeqCst);
                assert_excluded!(!was_taken, "slot {slot} was given twice");
                sleep(Duration::from_micros(random.u64(0..2_000))).await;
                taken[slot].store(false, Ordering::SeqCst);
                drop(guard);
            }
        });
    }
    let what = "all permits used";
    within(12 * bench.prompt(), what, join_all(tasks)).await;
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
