//! Waiters that are woken despite faults, and that send few requests while they wait.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, LockGuard, LockRequest};
use lock_redis::RedisLock;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::bed::{Bed, exclusive, take};
use crate::{LONG, PROMPT};

/// The time after which a waiter asks again without a push.
const FALL_BACK: Duration = Duration::from_secs(1);

/// Starts a task that waits for a lock and returns the guard with the time of the grant.
fn wait_for(tasks: &mut JoinSet<(LockGuard, Instant)>, locks: &RedisLock, request: LockRequest) {
    let locks = locks.clone();
    tasks.spawn(async move {
        let answer = timeout(LONG, locks.acquire(request)).await;
        let guard = answer.expect("served at all").expect("the server runs");
        (
            guard.expect("a wait without end is not given up"),
            Instant::now(),
        )
    });
}

async fn served(tasks: &mut JoinSet<(LockGuard, Instant)>) -> (LockGuard, Instant) {
    let served = tasks.join_next().await.expect("somebody waits");
    served.expect("served")
}

/// Waits until the server tracks `keys` keys.
async fn tracked(bed: &Bed, keys: u64) {
    let tracked = || bed.figure("stats", "tracking_total_keys");
    eventually(PROMPT * 2, "everybody waits", || async {
        tracked() >= keys
    })
    .await;
}

/// Releases many locks that have a waiter each, and returns the times from release to grant.
///
/// The releases cover all moments between the refusal of a take and the time after the waiter
/// listens.
async fn released_in_between(delay: Duration) -> Vec<Duration> {
    let bed = Bed::new();
    let (locks, direct) = (bed.client().await, bed.direct().await);
    let mut tasks = JoinSet::new();
    bed.command().delay(delay);
    for number in 0..45 {
        let (locks, direct) = (locks.clone(), direct.clone());
        tasks.spawn(async move {
            let request = exclusive(&format!("k{number}"), LONG);
            let guard = take(&direct, &request).await;
            let releasing = async {
                sleep(Duration::from_millis(number * 10)).await;
                guard.release().await.expect("the server runs");
                Instant::now()
            };
            let waiting = async { (take(&locks, &request).await, Instant::now()) };
            let (released, (_guard, granted)) = tokio::join!(releasing, waiting);
            granted.saturating_duration_since(released)
        });
    }
    tasks.join_all().await
}

/// A waiter that misses a release asks again after the fall-back. A busy machine may be as slow now
/// and then, but not in each round.
#[test]
fn a_release_between_asking_and_listening_is_not_missed() {
    steady(async || {
        let delay = Duration::from_millis(150);
        let mut slow = Vec::new();
        for _ in 0..5 {
            let mut latencies = released_in_between(delay).await;
            latencies.sort();
            // A push, a take and its answer.
            if latencies[latencies.len() * 9 / 10] < delay * 4 {
                return;
            }
            slow.push(latencies);
        }
        panic!("served after {slow:?}");
    });
}

/// The client reads the refusal and the push that follows it at once. A waiter that misses the push
/// asks again after the fall-back, and a busy machine may be as slow now and then.
#[test]
fn a_push_right_behind_the_answer_is_not_missed() {
    steady(async || {
        const ROUNDS: usize = 20;
        let bed = Bed::new();
        let (locks, direct) = (bed.client().await, bed.direct().await);
        let mut slow = 0;
        for _ in 0..ROUNDS {
            let guard = take(&direct, &exclusive("k", LONG)).await;
            let mut tasks = JoinSet::new();
            bed.command().to_client().delay(FALL_BACK / 4);
            wait_for(&mut tasks, &locks, exclusive("k", LONG));
            tracked(&bed, 1).await;
            bed.command().to_client().hold();
            let pushed = bed.command().to_client().bytes();
            guard.release().await.unwrap();
            eventually(PROMPT, "the server has told it", || async {
                bed.command().to_client().bytes() > pushed
            })
            .await;
            let told = Instant::now();
            bed.command().pass();
            let (guard, served) = served(&mut tasks).await;
            slow += usize::from(served - told > FALL_BACK / 2);
            guard.release().await.unwrap();
        }
        assert!(
            slow <= ROUNDS / 5,
            "{slow} of {ROUNDS} waited for the fall-back"
        );
    });
}

#[test]
fn a_waiter_is_served_although_the_push_connection_is_gone() {
    steady(async || {
        for fault in ["cut", "reset", "held", "lost"] {
            let bed = Bed::new();
            let (locks, direct) = (bed.client().await, bed.direct().await);
            let guard = take(&direct, &exclusive("k", LONG)).await;
            let mut tasks = JoinSet::new();
            wait_for(&mut tasks, &locks, exclusive("k", LONG));
            tracked(&bed, 1).await;
            // Only the current command connection fails; the client may open another one.
            let listening = bed.proxy.nth(0);
            match fault {
                "cut" => listening.cut(),
                "reset" => listening.reset(),
                "held" => listening.hold(),
                _ => listening.lose(),
            }
            let released = Instant::now();
            guard.release().await.unwrap();
            let (guard, granted) = served(&mut tasks).await;
            let after = granted - released;
            // The waiter asks again without an answer, and then the client probes the connection.
            assert!(
                after < FALL_BACK * 6,
                "{fault}: {after:?} after the release"
            );
            // Drop the requests that the proxy still holds. The server would grant a late take to
            // no waiter, for its ttl.
            listening.reset();
            drop(guard);
            bed.empties().await;
        }
    });
}

#[test]
fn waiting_for_many_keys_takes_no_more_connections() {
    steady(async || {
        const KEYS: u64 = 300;
        let bed = Bed::new();
        let (locks, direct) = (bed.client().await, bed.direct().await);
        let mut guards = Vec::new();
        for number in 0..KEYS {
            guards.push(take(&direct, &exclusive(&format!("k{number}"), LONG)).await);
        }
        let connections = bed.figure("clients", "connected_clients");
        for _ in 0..2 {
            let mut tasks = JoinSet::new();
            for guard in &guards {
                wait_for(&mut tasks, &locks, exclusive(guard.key().as_str(), LONG));
            }
            tracked(&bed, KEYS).await;
            // The server may still count the connections of earlier `INFO` requests.
            eventually(PROMPT, "no more connections than before", || async {
                bed.figure("clients", "connected_clients") <= connections
            })
            .await;
            tasks.shutdown().await;
        }
        assert_eq!((bed.proxy.all().count(), bed.proxy.all().open()), (2, 2));
    });
}

#[test]
fn a_release_with_two_hundred_waiters_costs_a_few_commands() {
    steady(async || {
        const CLIENTS: u64 = 4;
        let bed = Bed::new();
        let direct = bed.direct().await;
        let mut guard = take(&direct, &exclusive("k", LONG)).await;
        let mut tasks = JoinSet::new();
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let locks = bed.client().await;
            wait_for(&mut tasks, &locks, exclusive("k", LONG));
            clients.push(locks);
        }
        // In each client the first waiter asks, then asks again and listens. Each refusal calls
        // `PTTL`.
        let looked = async |times| {
            eventually(PROMPT, "the first ones in line listen", || async {
                bed.calls("pttl") >= times
            })
            .await;
        };
        looked(2 * CLIENTS).await;
        for locks in &clients {
            for _ in 0..49 {
                wait_for(&mut tasks, locks, exclusive("k", LONG));
            }
        }
        for _ in 0..5 {
            let commands = || bed.scripts() + bed.calls("pttl");
            let (before, looks, begin) = (commands(), bed.calls("pttl"), Instant::now());
            guard.release().await.unwrap();
            guard = served(&mut tasks).await.0;
            looked(looks + CLIENTS).await;
            let commands = commands() - before;
            // The push, the first request of the winner's next waiter, and each fall-back.
            let rounds = begin.elapsed().as_millis() as u64 / 1000 + 3;
            assert!(commands <= CLIENTS * 2 * rounds, "{commands} commands");
        }
    });
}

#[test]
fn ten_thousand_needless_invalidations_a_second_cost_few_attempts() {
    steady(async || {
        let bed = Bed::new();
        let (locks, direct) = (bed.direct().await, bed.direct().await);
        let guard = take(&direct, &exclusive("k", LONG)).await;
        let mut tasks = JoinSet::new();
        for _ in 0..50 {
            wait_for(&mut tasks, &locks, exclusive("k", LONG));
        }
        tracked(&bed, 1).await;
        let before = bed.scripts();
        let mut admin = bed.admin();
        let noise = tokio::task::spawn_blocking(move || {
            let (begin, mut made) = (Instant::now(), 0);
            while begin.elapsed() < FALL_BACK {
                let renewed = admin.command(&["PEXPIRE", "k", "60000"]);
                made += u64::from(renewed.expect("the server runs").integer() == Some(1));
            }
            made
        });
        let made = noise.await.unwrap();
        let attempts = bed.scripts() - before;
        println!("{attempts} attempts for {made} needless invalidations");
        // The rate limit allows a burst and one attempt a millisecond, and a coarse timer allows
        // more. A busy machine makes fewer invalidations than that.
        let most = (64 + 2 * FALL_BACK.as_millis() as u64).min(made);
        assert!(
            attempts <= most,
            "{attempts} attempts for {made} needless invalidations"
        );
        guard.release().await.unwrap();
        let _not_deaf = served(&mut tasks).await;
    });
}

/// The limit counts the silence for all waiters of the queue alike.
#[test]
fn all_in_line_give_up_on_a_silent_server_after_thirty_seconds() {
    steady(async || {
        const WAITERS: usize = 20;
        let bed = Bed::new();
        let (locks, direct) = (bed.client().await, bed.direct().await);
        let _held = take(&direct, &exclusive("k", LONG * 2)).await;
        let mut tasks = JoinSet::new();
        for _ in 0..WAITERS {
            let locks = locks.clone();
            tasks.spawn(async move { locks.acquire(exclusive("k", LONG)).await });
        }
        tracked(&bed, 1).await;
        bed.server.freeze();
        let silent = Instant::now();
        while let Some(outcome) = tasks.join_next().await {
            let error = outcome.unwrap().expect_err("the server is silent");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let after = silent.elapsed();
            let own = Duration::from_secs(29)..Duration::from_secs(34);
            assert!(own.contains(&after), "gave up after {after:?}");
        }
    });
}
