//! Holds are renewed while they are held, and no longer.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{ErrorKind, LockGuard, LossReason, Mode};
use tokio::time::{Instant, sleep};

pub(crate) use super::frozen::*;
pub(crate) use super::removed::*;
pub(crate) use super::switchover::*;
use crate::assert_excluded;
use crate::bench::Bench;
use crate::blocking::block_thread;
use crate::client::{Client, release};
use crate::eventually::within;
use crate::join::joined;

pub(crate) async fn a_hold_outlives_its_ttl(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let mut guards = Vec::new();
    for mode in bench.modes() {
        let request = bench.brief(&format!("long/{mode:?}"), mode);
        guards.push(ours.take(&request).await);
    }
    stay_held(&bench, &guards, bench.short() * 7 / 2).await;
    for guard in guards {
        let request = bench.exclusive(guard.key().as_str());
        theirs.is_refused(&request, "it is renewed").await;
        assert_eq!(release(guard).await, Released::Released);
    }
}

pub(crate) async fn many_holds_are_renewed_together(bench: Bench) {
    let clients: [Client; 2] = bench.clients().await;
    let mut guards = Vec::new();
    for number in 0..60 {
        let request = bench.brief(&format!("many/{number}"), Mode::Exclusive);
        guards.push(clients[number % 2].take(&request).await);
    }
    stay_held(&bench, &guards, bench.short() * 5 / 2).await;
    for guard in guards {
        assert_eq!(release(guard).await, Released::Released);
    }
}

pub(crate) async fn a_short_lease_beside_long_ones_is_renewed(bench: Bench) {
    let client = bench.client().await;
    let first = client.take(&bench.exclusive("long")).await;
    // By now the keeper has scheduled the renewals of the long hold.
    sleep(bench.short() / 10).await;
    let guards = [
        first,
        client.take(&bench.brief("short", Mode::Exclusive)).await,
    ];
    let later = client.take(&bench.exclusive("later")).await;
    stay_held(&bench, &guards[1..], bench.short() * 5 / 2).await;
    drop(later);
    for guard in guards {
        assert_eq!(release(guard).await, Released::Released);
    }
}

pub(crate) async fn a_hold_outlives_its_client(bench: Bench) {
    let [client, other] = bench.clients().await;
    let request = bench.brief("orphaned", Mode::Exclusive);
    let guards = [client.take(&request).await];
    drop(client);
    stay_held(&bench, &guards, bench.short() * 3 / 2).await;
    let [guard] = guards;
    other.is_refused_beside(&guard, &request).await;
    assert_eq!(release(guard).await, Released::Released);
}

/// Asserts for `duration` that brief holds are held, and never for longer than their ttl.
async fn stay_held(bench: &Bench, guards: &[LockGuard], duration: Duration) {
    let began = Instant::now();
    while began.elapsed() < duration {
        for guard in guards {
            let remaining = guard.remaining();
            assert!(
                guard.is_held(),
                "{guard:?} was lost after {:?}",
                began.elapsed()
            );
            assert!(
                remaining <= bench.short(),
                "{guard:?} remains for {remaining:?}, longer than its ttl"
            );
        }
        sleep(bench.short() / 50).await;
    }
}

pub(crate) async fn nothing_is_renewed_after_its_release(bench: Bench) {
    let client = bench.client().await;
    let mut random = bench.random(0);
    // With this ttl, a hold that comes back does not expire before the case sees it.
    let ttl = 3 * bench.short();
    let mut guards = Vec::new();
    for number in 0..30 {
        let request = bench.exclusive(&format!("released/{number}")).with_ttl(ttl);
        guards.push(client.take(&request).await);
    }
    // Release one after the other around the time of the renewals.
    sleep(ttl * 3 / 10).await;
    for guard in guards {
        if random.bool() {
            release(guard).await;
        } else {
            drop(guard);
        }
        sleep(ttl.mul_f64(random.f64() / 300.0)).await;
    }
    bench.nothing_is_left_within(ttl / 2).await;
    let until = Instant::now() + ttl / 6;
    while Instant::now() < until {
        let back = bench.residue().await;
        assert!(back.is_empty(), "a late renewal brought back {back:?}");
        sleep(ttl / 60).await;
    }
}

pub(crate) async fn a_watch_hears_of_the_release(bench: Bench) {
    let client = bench.client().await;
    let explicit = client.take(&bench.exclusive("watched")).await;
    let dropped = client.take(&bench.exclusive("watched too")).await;
    let watches = [explicit.watch(), dropped.watch()];
    assert!(watches.iter().all(lock_core::HoldWatch::is_held));
    release(explicit).await;
    drop(dropped);
    for watch in watches {
        assert_excluded!(!watch.is_held());
        assert_eq!(watch.remaining(), Duration::ZERO);
        let what = "a watch told of the release";
        let reason = within(Duration::from_secs(1), what, watch.lost()).await;
        assert_eq!(reason, LossReason::Released);
    }
}

pub(crate) async fn a_blocked_runtime_is_not_deceived(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let request = bench.brief("blocked", Mode::Exclusive);
    let (ttl, acquiring) = (bench.short(), ours.acquire(request.clone()));
    let (took, taken) = tokio::sync::oneshot::channel();
    let blocked = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime to block");
        let guard = runtime.block_on(acquiring).expect("it is free");
        took.send(()).expect("the case waits");
        runtime.block_on(async { block_thread(ttl * 3 / 2) });
        // The very first check has to be right.
        let held = guard.is_held();
        if !held {
            let what = "a blocked holder told of its loss";
            let lost = within(Duration::from_secs(1), what, guard.lost());
            assert_eq!(runtime.block_on(lost), LossReason::Expired);
        }
        (runtime, held, guard)
    });
    taken.await.expect("it is taken");
    sleep(ttl * 6 / 5).await;
    let overtaker = theirs.try_take(&request).await;
    // Declared in this order, so that the guard is dropped first even if the assertion fails.
    let (runtime, held, guard) = joined(blocked.await);
    assert_excluded!(
        !held || overtaker.is_none(),
        "still held after 1.5 ttl without its runtime, and another client holds it, too"
    );
    drop(guard);
    runtime.shutdown_background();
}

pub(crate) async fn every_declared_ttl_can_be_had(bench: Bench) {
    let locks = bench.client().await.locks();
    let range = bench.capabilities().ttl.clone();
    for ttl in [*range.start(), *range.end()] {
        // The shortest ttl may be over before the answer arrives, so several attempts may be
        // needed.
        let request = bench
            .exclusive("ttl")
            .with_ttl(ttl)
            .waiting_at_most(bench.prompt());
        let guard = match locks.acquire(request).await {
            Ok(Some(guard)) => guard,
            other => panic!("a ttl of {ttl:?} is declared, but: {other:?}"),
        };
        assert!(guard.remaining() <= ttl);
        release(guard).await;
    }
}

pub(crate) async fn a_ttl_out_of_range_is_refused(bench: Bench) {
    let locks = bench.client().await.locks();
    let range = &bench.capabilities().ttl;
    let (shorter, longer) = (*range.start() / 2, range.end().saturating_mul(2));
    let ttls = [Duration::ZERO, shorter, longer, Duration::MAX];
    for ttl in ttls.into_iter().filter(|ttl| !range.contains(ttl)) {
        let request = bench.exclusive("ttl").with_ttl(ttl).without_waiting();
        match locks.acquire(request).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            other => panic!("a ttl of {ttl:?} is outside of {range:?}, but: {other:?}"),
        }
    }
}
