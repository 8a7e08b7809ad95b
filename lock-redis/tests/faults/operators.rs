//! Operators that change a server, and foreign clients that change its keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::park_timeout;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LockGuard, LossReason};
use lock_redis::RedisLock;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::bed::{
    Bed, exclusive, in_all_modes, is_renewed_after, lost, take, try_take, valid_until,
};
use crate::{LONG, PROMPT};

const TTL: Duration = Duration::from_millis(2400);

async fn take_in_all_modes(locks: &RedisLock, ttl: Duration) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for request in in_all_modes("k", ttl) {
        guards.push(take(locks, &request).await);
    }
    guards
}

async fn are_renewed(guards: &[LockGuard]) {
    for guard in guards {
        is_renewed_after(guard, valid_until(guard)).await;
    }
}

#[test]
fn scripts_flushed_a_hundred_times_a_second_are_no_trouble() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let held = take_in_all_modes(&locks, TTL).await;
        let stop = Arc::new(AtomicBool::new(false));
        let (mut admin, stopped) = (bed.admin(), Arc::clone(&stop));
        let flushing = std::thread::spawn(move || {
            let mut flushes = 0;
            while !stopped.load(Ordering::Relaxed) {
                admin
                    .command(&["SCRIPT", "FLUSH"])
                    .expect("the server runs");
                flushes += 1;
                park_timeout(Duration::from_millis(10));
            }
            flushes
        });
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for task in 0..4 {
            let locks = locks.clone();
            tasks.spawn(async move {
                let mut rounds = 0;
                while begin.elapsed() < TTL * 2 {
                    // Two tasks use each key, so tasks also wait.
                    for request in in_all_modes(&format!("busy{}", task % 2), LONG) {
                        let guard = take(&locks, &request).await;
                        assert_eq!(guard.release().await.unwrap(), Released::Released);
                    }
                    rounds += 1;
                }
                rounds
            });
        }
        let rounds: usize = tasks.join_all().await.iter().sum();
        are_renewed(&held).await;
        stop.store(true, Ordering::Relaxed);
        let flushes = flushing.join().unwrap();
        assert!(
            rounds > 10 && flushes > 50,
            "{rounds} rounds, {flushes} flushes"
        );
        for guard in held {
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
        bed.empties().await;
    });
}

#[test]
fn a_server_out_of_memory_refuses_new_holds_and_keeps_the_old() {
    steady(async || {
        let bed = Bed::new();
        let (locks, direct) = (bed.client().await, bed.direct().await);
        let mut held = take_in_all_modes(&locks, TTL).await;
        // Holders of another client, which stay when this client's holds are released.
        held.append(&mut take_the_rest(&direct).await);
        bed.ask(&["CONFIG", "SET", "maxmemory", "100kb"]);
        for request in in_all_modes("another", LONG) {
            let error = try_take(&locks, &request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("out of memory"), "{error}");
        }
        are_renewed(&held).await;
        are_renewed(&held).await;
        for guard in held {
            let released = guard.release().await.unwrap();
            assert_eq!(released, Released::Released);
        }
        bed.empties().await;
        bed.ask(&["CONFIG", "SET", "maxmemory", "0"]);
        take_in_all_modes(&locks, LONG).await;
    });
}

async fn take_the_rest(locks: &RedisLock) -> Vec<LockGuard> {
    let [_, shared, permit] = in_all_modes("k", TTL);
    vec![take(locks, &shared).await, take(locks, &permit).await]
}

#[test]
fn a_lock_that_was_made_to_stay_for_ever_expires_again() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let held = take_in_all_modes(&locks, TTL).await;
        let keys: Vec<_> = held
            .iter()
            .map(|guard| guard.key().as_str().to_owned())
            .collect();
        for key in &keys {
            assert_eq!(bed.ask(&["PERSIST", key]).integer(), Some(1));
        }
        for key in &keys {
            eventually(PROMPT, "a renewal sets the expiry again", || async {
                !bed.expires_in(key).is_zero()
            })
            .await;
            assert!(bed.expires_in(key) <= TTL);
        }
        assert!(held.iter().all(LockGuard::is_held));
    });
}

#[test]
fn holds_that_are_removed_are_told_within_a_renewal() {
    steady(async || {
        for command in [&["FLUSHALL"][..], &["DEL"], &["RENAME"], &["SET"]] {
            let bed = Bed::new();
            let locks = bed.client().await;
            let held = take_in_all_modes(&locks, TTL * 2).await;
            for guard in &held {
                let key = guard.key().as_str();
                let moved = format!("{key} moved");
                match command[0] {
                    "FLUSHALL" => bed.ask(&["FLUSHALL"]),
                    "RENAME" => bed.ask(&["RENAME", key, &moved]),
                    "SET" => bed.ask(&["SET", key, "theirs"]),
                    command => bed.ask(&[command, key]),
                };
            }
            let begin = Instant::now();
            for guard in held {
                assert_eq!(lost(&guard).await, LossReason::Removed, "{command:?}");
                assert!(
                    begin.elapsed() < TTL * 2,
                    "{command:?}: {:?}",
                    begin.elapsed()
                );
                let key = guard.key().as_str().to_owned();
                assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
                let moved = bed.exists(&format!("{key} moved"));
                assert_eq!(
                    moved,
                    command[0] == "RENAME",
                    "what was renamed is not ours any more"
                );
                assert_eq!(bed.exists(&key), command[0] == "SET", "{command:?}");
            }
        }
    });
}

#[test]
fn keys_of_any_other_kind_are_an_error_and_left_alone() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let foreign: [&[&str]; 4] = [
            &["HSET", "k", "field", "value"],
            &["SADD", "k", "member"],
            &["XADD", "k", "*", "field", "value"],
            &["RPUSH", "k", "item"],
        ];
        for command in foreign {
            bed.ask(&["DEL", "k"]);
            bed.ask(command);
            let before = bed.ask(&["DUMP", "k"]);
            for mut request in in_all_modes("k", TTL) {
                request.key = exclusive("k", TTL).key;
                let error = try_take(&locks, &request).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Backend, "{error}");
                let error = locks.acquire(request).await.unwrap_err();
                assert_eq!(
                    error.kind(),
                    ErrorKind::Backend,
                    "waiting would never end: {error}"
                );
            }
            assert_eq!(bed.ask(&["DUMP", "k"]), before, "{command:?}");
            assert_eq!(bed.ask(&["PTTL", "k"]).integer(), Some(-1), "{command:?}");
        }
        // Other clients lock with strings, so the key is busy in every mode until they delete it.
        bed.ask(&["DEL", "k"]);
        bed.ask(&["SET", "k", "theirs"]);
        for mut request in in_all_modes("k", TTL) {
            request.key = exclusive("k", TTL).key;
            lock_testkit::assert_excluded!(try_take(&locks, &request).await.unwrap().is_none());
        }
        assert_eq!(bed.ask(&["GET", "k"]).text().as_deref(), Some("theirs"));
    });
}

#[test]
fn each_connection_can_be_killed_while_held_and_waited_for() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let held = take_in_all_modes(&locks, TTL).await;
        let direct = bed.direct().await;
        let other = take(&direct, &exclusive("other", LONG)).await;
        let mut waiting = JoinSet::new();
        let waiter = locks.clone();
        waiting.spawn(async move { waiter.acquire(exclusive("other", LONG)).await });
        for round in 0..12 {
            match round % 4 {
                0 => bed.background().cut(),
                1 => bed.command().cut(),
                2 => bed.background().reset(),
                _ => bed.command().reset(),
            }
            let guard = take(&locks, &exclusive("free", LONG)).await;
            assert_eq!(
                guard.release().await.unwrap(),
                Released::Released,
                "round {round}"
            );
        }
        are_renewed(&held).await;
        other.release().await.unwrap();
        let served = waiting.join_next().await.expect("one waits").unwrap();
        assert!(served.unwrap().is_some());
    });
}

#[test]
fn a_pause_of_all_clients_is_ridden_out() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let held = take_in_all_modes(&locks, TTL).await;
        let until: Vec<_> = held.iter().map(valid_until).collect();
        let pause = TTL / 3;
        bed.ask(&["CLIENT", "PAUSE", &pause.as_millis().to_string(), "ALL"]);
        let begin = Instant::now();
        let guard = take(&locks, &exclusive("free", LONG)).await;
        assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        for (guard, until) in held.iter().zip(until) {
            is_renewed_after(guard, until).await;
        }
    });
}

#[test]
fn a_restart_while_held_and_waited_for_serves_the_waiters_with_greater_tokens() {
    steady(async || {
        let bed = Bed::new();
        let (locks, others) = (bed.client().await, bed.client().await);
        let held = take_in_all_modes(&locks, TTL).await;
        let mut waiting = JoinSet::new();
        for guard in &held {
            let (others, request) = (others.clone(), exclusive(guard.key().as_str(), LONG));
            waiting.spawn(async move { take(&others, &request).await });
        }
        eventually(PROMPT, "everybody waits", || async {
            bed.calls("pttl") >= 3
        })
        .await;
        bed.server.restart();
        for guard in &held {
            assert_eq!(lost(guard).await, LossReason::Removed);
        }
        for next in waiting.join_all().await {
            let before = held.iter().find(|guard| guard.key() == next.key());
            let before = before.expect("one of ours").token();
            assert!(next.token() > before, "{} after {before}", next.token());
        }
    });
}

/// The server reports the removal on a connection that has ended.
#[test]
fn a_removal_behind_a_broken_connection_is_noticed_at_once() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let guard = take(&locks, &exclusive("k", LONG)).await;
        is_renewed_after(&guard, valid_until(&guard)).await;
        bed.background().cut();
        bed.ask(&["DEL", "k"]);
        let told = timeout(Duration::from_millis(1_500), guard.lost()).await;
        assert_eq!(
            told.expect(
                "it is asked about a second after its renewal, and not again a second later"
            ),
            LossReason::Removed
        );
    });
}
