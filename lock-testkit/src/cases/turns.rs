//! Clients that want the same key all the time, in any modes, take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{LockRequest, Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::assert_excluded;
use crate::bench::{Bench, permit};
use crate::client::release;
use crate::eventually::{eventually, within};

/// So many turns that chance alone does not grant all of them in time.
const TURNS: u64 = 10;

/// The time for which the busy client holds: far longer than the key is free in between.
const BUSY: Duration = Duration::from_millis(20);

/// Asserts that a client soon gets a key that tasks of another client take again and again.
///
/// Both clients have to make progress.
async fn take_turns(bench: &Bench, busy: LockRequest, tasks: usize, other: LockRequest) {
    let [busy_client, patient] = bench.clients().await;
    let (grants, mut running) = (Arc::<AtomicU64>::default(), JoinSet::new());
    for _ in 0..tasks {
        let (client, grants) = (busy_client.clone(), Arc::clone(&grants));
        let request = busy.clone().with_wait(Wait::Forever);
        running.spawn(async move {
            loop {
                let guard = client.acquire(request.clone()).await.expect("no end");
                sleep(BUSY).await;
                release(guard).await;
                grants.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let goes_on = async || {
        let goal = grants.load(Ordering::Relaxed) + TURNS;
        let is_there = || async { goal <= grants.load(Ordering::Relaxed) };
        eventually(bench.prompt(), "the busy client at work", is_there).await;
    };
    goes_on().await;
    let turns = async {
        for _ in 0..TURNS {
            let request = other.clone().with_wait(Wait::Forever);
            release(patient.acquire(request).await.expect("no end")).await;
        }
    };
    let what = "turns of a client while another one takes the key again and again";
    within(bench.prompt(), what, turns).await;
    goes_on().await;
}

pub(crate) async fn clients_take_turns(bench: Bench) {
    take_turns(&bench, bench.exclusive("one"), 1, bench.exclusive("one")).await;
    take_turns(&bench, bench.exclusive("k"), 4, bench.exclusive("k")).await;
}

pub(crate) async fn a_writer_gets_in_between_readers(bench: Bench) {
    let readers = bench.request("k", Mode::Shared);
    take_turns(&bench, readers, 4, bench.exclusive("k")).await;
}

pub(crate) async fn a_reader_gets_in_between_writers(bench: Bench) {
    let reader = bench.request("k", Mode::Shared);
    take_turns(
        &bench,
        bench.exclusive("one"),
        1,
        bench.request("one", Mode::Shared),
    )
    .await;
    take_turns(&bench, bench.exclusive("k"), 4, reader).await;
}

pub(crate) async fn permits_and_writers_take_turns(bench: Bench) {
    let permits = || bench.request("k", permit(8));
    take_turns(&bench, permits(), 4, bench.exclusive("k")).await;
    take_turns(&bench, bench.exclusive("k"), 1, permits()).await;
}

/// Asserts that a claim is granted beside a holder after the wait of a writer has ended.
async fn goes(bench: &Bench, beside: LockRequest) {
    let [holder, writer, other] = bench.clients().await;
    let held = holder.take(&beside).await;
    let brief = bench
        .exclusive("k")
        .waiting_at_most(Duration::from_millis(100));
    let waited = within(
        bench.prompt(),
        "the end of a wait",
        writer.acquire_briefly(brief),
    )
    .await;
    assert_excluded!(waited.is_none(), "a writer in beside {:?}", beside.mode);
    let waiting = other.acquire(beside.with_wait(Wait::Forever));
    let what = "somebody in beside the holder after a writer has gone";
    drop(within(bench.prompt(), what, waiting).await.expect("no end"));
    drop(held);
}

pub(crate) async fn a_writer_that_has_gone_keeps_no_reader_out(bench: Bench) {
    goes(&bench, bench.request("k", Mode::Shared)).await;
}

pub(crate) async fn a_writer_that_has_gone_keeps_no_permit_back(bench: Bench) {
    goes(&bench, bench.request("k", permit(8))).await;
}
