//! Upgradeable holds, and holds that change their mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_core::{ErrorKind, FencingToken, LockGuard, LossReason, Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::bench::{Bench, permit};
use crate::cases::cancellation::POLLS_MAX;
use crate::client::{Client, SETTLE, keeps_waiting, release};
use crate::eventually::within;
use crate::join::join_all;
use crate::polls::poll_times_and_rest;
use crate::{assert_excluded, section::Section};

pub(crate) async fn an_upgradeable_holder_shares_with_readers_only(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let request = |mode| bench.request("rw", mode);
    let upgradeable = request(Mode::Upgradeable);
    let first = theirs.take(&request(Mode::Shared)).await;
    let guard = ours.take(&upgradeable).await;
    let second = theirs.take(&request(Mode::Shared)).await;
    assert_eq!(guard.mode(), Mode::Upgradeable);
    theirs.is_refused(&upgradeable, "one is held").await;
    let why = "an upgradeable lock is held";
    theirs.is_refused(&request(Mode::Exclusive), why).await;
    if bench.capabilities().permits {
        theirs.is_refused(&request(permit(9)), why).await;
    }
    release(first).await;
    release(second).await;
    theirs.is_refused(&request(Mode::Exclusive), why).await;
    theirs.is_refused(&upgradeable, why).await;
    let reader = theirs.take(&request(Mode::Shared)).await;
    release(guard).await;
    let guard = ours.take(&upgradeable).await;
    assert!(reader.is_held() && guard.is_held());
}

pub(crate) async fn an_upgrade_excludes_readers(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let read = bench.request("rw", Mode::Shared);
    let upgradeable = bench.request("rw", Mode::Upgradeable);
    let guard = ours.take(&upgradeable).await;
    let reader = theirs.take(&read).await;
    let refused = upgrade(&bench, guard).await;
    let Err((guard, error)) = refused else {
        assert_excluded!(false, "an upgrade was granted beside a reader");
        return;
    };
    assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
    assert!(guard.is_held() && reader.is_held(), "nothing has changed");
    assert_eq!(guard.mode(), Mode::Upgradeable);
    let tokens = [guard.token(), reader.token()];
    release(reader).await;
    let watch = guard.watch();
    let writer = upgraded(&bench, guard).await;
    assert_eq!(writer.mode(), Mode::Exclusive);
    assert_greater(&writer, tokens);
    assert_eq!(watch.lost().await, LossReason::Released);
    let why = "the holder was upgraded";
    theirs.is_refused(&read, why).await;
    theirs.is_refused(&upgradeable, why).await;
    theirs.is_refused(&bench.exclusive("rw"), why).await;
    let token = writer.token();
    release(writer).await;
    let next = theirs.take(&bench.exclusive("rw")).await;
    assert_greater(&next, [token]);
}

pub(crate) async fn a_downgrade_lets_readers_in_and_no_writer(bench: Bench) {
    let [ours, theirs, others] = bench.clients().await;
    for held in [Mode::Exclusive, Mode::Upgradeable] {
        let guard = ours.take(&bench.request("rw", held)).await;
        let (token, watch) = (guard.token(), guard.watch());
        let waiting = match held {
            Mode::Exclusive => Some(theirs.line_up(&bench.request("rw", Mode::Shared)).await),
            _ => None,
        };
        let guard = downgraded(&bench, guard).await;
        assert_eq!(guard.mode(), Mode::Shared);
        assert_greater(&guard, [token]);
        assert!(!watch.is_held());
        let reader = match waiting {
            Some(waiting) => theirs.served(waiting, "a reader in beside it").await,
            None => theirs.take(&bench.request("rw", Mode::Shared)).await,
        };
        let upgradeable = others.take(&bench.request("rw", Mode::Upgradeable)).await;
        assert_greater(&reader, [token]);
        others
            .is_refused(&bench.exclusive("rw"), "readers hold it")
            .await;
        assert!(guard.is_held() && reader.is_held());
        release(guard).await;
        let why = "a reader and an upgradeable holder are left";
        ours.is_refused(&bench.exclusive("rw"), why).await;
        release(reader).await;
        release(upgradeable).await;
    }
    drop(ours.take(&bench.exclusive("rw")).await);
}

pub(crate) async fn no_waiter_gets_in_during_a_conversion(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let guard = ours.take(&bench.request("rw", Mode::Upgradeable)).await;
    let mut waiting = theirs.line_up(&bench.exclusive("rw")).await;
    let guard = upgraded(&bench, guard).await;
    keeps_waiting(&mut waiting, SETTLE).await;
    let upgraded = guard.token();
    let guard = downgraded(&bench, guard).await;
    keeps_waiting(&mut waiting, SETTLE).await;
    assert!(guard.is_held());
    assert_greater(&guard, [upgraded]);
    let token = guard.token();
    release(guard).await;
    let writer = theirs
        .served(waiting, "the writer after the conversions")
        .await;
    assert_greater(&writer, [token]);
}

pub(crate) async fn a_converted_hold_is_renewed(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let guard = ours.take(&bench.brief("up", Mode::Upgradeable)).await;
    let up = upgraded(&bench, guard).await;
    let guard = ours.take(&bench.brief("down", Mode::Exclusive)).await;
    let down = downgraded(&bench, guard).await;
    sleep(bench.short() * 2).await;
    assert!(
        up.is_held() && down.is_held(),
        "a conversion ended renewals"
    );
    theirs
        .is_refused(&bench.request("up", Mode::Shared), "it is held")
        .await;
    theirs
        .is_refused(&bench.exclusive("down"), "it is held")
        .await;
}

pub(crate) async fn a_conversion_dropped_at_every_poll_leaves_nothing(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    for mode in [Mode::Upgradeable, Mode::Exclusive] {
        let is_upgrade = mode == Mode::Upgradeable;
        let mut is_done = false;
        for polls in 0..POLLS_MAX {
            let guard = ours.wait_for(&bench.request("cancelled", mode)).await;
            let watch = guard.watch();
            let converting = async {
                match is_upgrade {
                    true => drop(upgrade(&bench, guard).await),
                    false => drop(downgraded(&bench, guard).await),
                }
            };
            let rest = SETTLE / 20;
            let outcome = poll_times_and_rest(converting, polls, bench.prompt(), rest).await;
            assert!(!watch.is_held(), "held after its guard was dropped");
            drop(theirs.wait_for(&bench.exclusive("cancelled")).await);
            is_done = outcome.is_some();
            if is_done {
                break;
            }
        }
        assert!(is_done, "not converted after {POLLS_MAX} polls");
    }
    bench.nothing_is_left().await;
}

pub(crate) async fn a_conversion_on_a_frozen_store_deceives_nobody(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let up = ours.take(&bench.brief("up", Mode::Upgradeable)).await;
    let down = ours.take(&bench.brief("down", Mode::Exclusive)).await;
    if !bench.freeze().await {
        return;
    }
    let began = Instant::now();
    let limit = bench.short() + bench.prompt();
    let both = async { tokio::join!(up.try_upgrade(), down.downgrade()) };
    let (upgraded, downgraded) = within(limit, "conversions on a frozen store", both).await;
    let Err((guard, error)) = upgraded else {
        panic!("upgraded by a frozen store");
    };
    assert_excluded!(
        !guard.is_held(),
        "held {:?} after the store was frozen",
        began.elapsed()
    );
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let error = downgraded.expect_err("downgraded by a frozen store");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    bench.thaw().await;
    drop(guard);
    for key in ["up", "down"] {
        drop(theirs.wait_for(&bench.exclusive(key)).await);
    }
    bench.nothing_is_left().await;
}

pub(crate) async fn a_removed_hold_is_not_converted(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let guard = ours.take(&bench.request("rw", Mode::Upgradeable)).await;
    if !bench.remove("rw").await {
        return;
    }
    let next = theirs.wait_for(&bench.exclusive("rw")).await;
    let Err((guard, error)) = upgrade(&bench, guard).await else {
        assert_excluded!(false, "a removed hold was upgraded");
        return;
    };
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    assert!(!guard.is_held());
    assert!(next.is_held());
}

pub(crate) async fn other_conversions_are_unsupported(bench: Bench) {
    let client = bench.client().await;
    let writer = client.take(&bench.exclusive("x")).await;
    let Err((writer, error)) = writer.try_upgrade().await else {
        panic!("an exclusive lock was upgraded");
    };
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(writer.is_held());
    if !bench.capabilities().upgrades {
        let error = writer.downgrade().await.expect_err("it is not declared");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    }
    if bench.capabilities().shared {
        let reader = client.take(&bench.request("s", Mode::Shared)).await;
        let Err((reader, error)) = reader.try_upgrade().await else {
            panic!("a reader was upgraded");
        };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(reader.is_held());
    }
}

pub(crate) async fn upgrades_lose_no_update(bench: Bench) {
    const TASKS: u64 = 9;
    let clients: [Client; 3] = bench.clients().await;
    let (section, upgrades) = (Arc::new(Section::default()), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = clients[task as usize % clients.len()].clone();
        let (section, upgrades) = (Arc::clone(&section), Arc::clone(&upgrades));
        let (bench, mut random) = (bench.clone(), bench.random(task));
        tasks.spawn(async move {
            for _ in 0..6 {
                let mode = match task % 3 {
                    0 => Mode::Shared,
                    1 => Mode::Upgradeable,
                    _ => Mode::Exclusive,
                };
                let request = bench.request("rw", mode).with_wait(Wait::Forever);
                let guard = client.acquire(request).await.expect("no end");
                section.enter(mode, &mut random).await;
                let writer = match mode {
                    Mode::Upgradeable => upgrade(&bench, guard).await.ok(),
                    Mode::Exclusive => {
                        let reader = downgraded(&bench, guard).await;
                        section.enter(Mode::Shared, &mut random).await;
                        assert!(reader.is_held());
                        None
                    }
                    _ => None,
                };
                if let Some(writer) = writer {
                    section.enter(Mode::Exclusive, &mut random).await;
                    upgrades.fetch_add(1, Ordering::SeqCst);
                    assert!(writer.is_held());
                }
            }
        });
    }
    let what = "all critical sections done";
    within(12 * bench.prompt(), what, join_all(tasks)).await;
    let writers = 6 * TASKS / 3 + upgrades.load(Ordering::SeqCst);
    assert_excluded!(section.counter() == writers, "an update was lost");
}

async fn upgrade(
    bench: &Bench,
    guard: LockGuard,
) -> Result<LockGuard, (LockGuard, lock_core::Error)> {
    within(
        bench.prompt(),
        "an answer to an upgrade",
        guard.try_upgrade(),
    )
    .await
}

async fn upgraded(bench: &Bench, guard: LockGuard) -> LockGuard {
    match upgrade(bench, guard).await {
        Ok(writer) => writer,
        Err((guard, error)) => panic!("{guard:?} was not upgraded: {error:?}"),
    }
}

async fn downgraded(bench: &Bench, guard: LockGuard) -> LockGuard {
    let answer = within(
        bench.prompt(),
        "an answer to a downgrade",
        guard.downgrade(),
    )
    .await;
    answer.unwrap_or_else(|error| panic!("not downgraded: {error:?}"))
}

/// Asserts that the token of `guard` is greater than those of earlier grants.
fn assert_greater<const N: usize>(guard: &LockGuard, earlier: [FencingToken; N]) {
    for token in earlier {
        assert!(guard.token() > token, "{guard:?} follows {token:?}");
    }
}
