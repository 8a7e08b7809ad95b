//! Shared holds: many readers or one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{LockGuard, Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::modes::all_enter_together;
use crate::bench::Bench;
use crate::client::{Client, keeps_waiting, release};
use crate::eventually::within;
use crate::join::join_all;

pub(crate) async fn readers_share(bench: Bench) {
    let clients: [Client; 3] = bench.clients().await;
    let request = bench.request("read", Mode::Shared);
    let mut guards = Vec::new();
    for number in 0..9 {
        let guard = clients[number % clients.len()].take(&request).await;
        assert_eq!(guard.mode(), Mode::Shared);
        guards.push(guard);
    }
    assert!(guards.iter().all(LockGuard::is_held));
    // The release of one reader does not end the holds of other readers.
    release(guards.swap_remove(4)).await;
    let write = bench.exclusive("read");
    clients[0]
        .is_refused(&write, "eight readers are left")
        .await;
    assert!(guards.iter().all(LockGuard::is_held));
}

pub(crate) async fn readers_and_writers_exclude(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let (read, write) = (bench.request("rw", Mode::Shared), bench.exclusive("rw"));
    let writer = ours.take(&write).await;
    theirs.is_refused(&read, "a writer holds it").await;
    ours.is_refused(&read, "the same client writes").await;
    release(writer).await;
    let readers = [ours.take(&read).await, theirs.take(&read).await];
    theirs.is_refused(&write, "two readers hold it").await;
    let [first, last] = readers;
    release(first).await;
    ours.is_refused(&write, "one reader still holds it").await;
    let waiting = ours.line_up(&write).await;
    release(last).await;
    let what = "the writer served after the last reader";
    let writer = ours.served(waiting, what).await;
    let waiting = theirs.line_up(&read).await;
    drop(writer);
    let what = "the reader served after the writer";
    drop(theirs.served(waiting, what).await);
}

pub(crate) async fn readers_enter_together_after_a_writer(bench: Bench) {
    let [writer, one, other] = bench.clients().await;
    let guard = writer.take(&bench.exclusive("rw")).await;
    let request = bench.request("rw", Mode::Shared);
    let what = "all waiting readers in together after the writer";
    all_enter_together(&bench, &[one, other], &request, vec![guard], what).await;
}

pub(crate) async fn a_writer_is_served_while_readers_come_and_go(bench: Bench) {
    let [readers, writer] = bench.clients().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for reader in 0..8 {
        let (readers, stop) = (readers.clone(), Arc::clone(&stop));
        let (request, mut random) = (bench.request("read", Mode::Shared), bench.random(reader));
        let request = request.with_wait(Wait::Forever);
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let guard = readers.acquire(request.clone()).await;
                // The holds differ in length, so that there is almost always a reader.
                sleep(Duration::from_millis(random.u64(5..40))).await;
                drop(guard);
            }
        });
    }
    for _ in 0..3 {
        let request = bench.exclusive("read").with_wait(Wait::Forever);
        let what = "a writer served while readers come and go";
        drop(within(bench.prompt(), what, writer.acquire(request)).await);
    }
    stop.store(true, Ordering::Relaxed);
    within(bench.prompt(), "the readers done", join_all(tasks)).await;
}

pub(crate) async fn a_crashed_reader_frees_only_itself(bench: Bench) {
    let [reader, writer] = bench.clients().await;
    if !bench.crash(bench.brief("read", Mode::Shared)).await {
        return;
    }
    // This hold needs no renewal, which a stall of the machine may prevent.
    let living = reader.take(&bench.request("read", Mode::Shared)).await;
    let mut waiting = writer.line_up(&bench.exclusive("read")).await;
    keeps_waiting(&mut waiting, bench.short() * 2).await;
    assert!(
        living.is_held(),
        "a crashed reader took the living one along"
    );
    release(living).await;
    let what = "the writer served after a crashed and a living reader";
    drop(writer.served(waiting, what).await);
}
