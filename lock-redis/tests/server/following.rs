//! Waiters of one client that ask right behind the release of the one before, which keeps others out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use lock_core::{DistributedLockExt, Released};
use lock_redis::RedisLock;
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;

use crate::batches::how_often;
use crate::connect;

const PROMPT: Duration = Duration::from_secs(20);

/// Tasks of one client that take the same key again and again, until they are dropped.
struct Crowd {
    turns: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Crowd {
    fn of(locks: &RedisLock) -> Self {
        let (turns, mut tasks) = (Arc::<AtomicU64>::default(), JoinSet::new());
        for _ in 0..8 {
            let (locks, turns) = (locks.clone(), Arc::clone(&turns));
            tasks.spawn(async move {
                loop {
                    take(&locks).await;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self {
            turns,
            _tasks: tasks,
        }
    }

    fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// Takes the key and gives it back.
async fn take(locks: &RedisLock) {
    let guard = locks.lock_within("k", PROMPT).await;
    let guard = guard.expect("the server runs").expect("nobody starves");
    let released = guard.release().await;
    assert_eq!(released.expect("the server runs"), Released::Released);
}

/// How often somebody listened in each of so many turns: whoever follows need not.
async fn listening(server: &RedisServer, crowd: &Crowd, during: u64) -> f64 {
    let figures = || (crowd.turns(), how_often(server, "client|caching"));
    let (turns, listened) = figures();
    eventually(PROMPT, "turns", || async { crowd.turns() > turns + during }).await;
    let (turns_then, listened_then) = figures();
    (listened_then - listened) as f64 / (turns_then - turns) as f64
}

/// A machine that is slow for a while makes each turn a long one, and nobody follows.
async fn follow_each_other(server: &RedisServer, crowd: &Crowd) {
    eventually(PROMPT, "waiters follow each other", || async {
        listening(server, crowd, 200).await < 0.5
    })
    .await;
}

#[test]
fn where_nobody_else_wants_the_key_waiters_follow_each_other() {
    steady(async || {
        let server = RedisServer::start();
        let crowd = Crowd::of(&connect(server.url()).await);
        follow_each_other(&server, &crowd).await;
    });
}

#[test]
fn every_now_and_then_others_have_a_chance() {
    steady(async || {
        let server = RedisServer::start();
        let crowd = Crowd::of(&connect(server.url()).await);
        follow_each_other(&server, &crowd).await;
        let listening = listening(&server, &crowd, 200).await;
        assert!(listening > 0.1, "only {listening} of them listened");
    });
}

#[test]
fn another_client_gets_its_turn() {
    steady(async || {
        let server = RedisServer::start();
        let crowd = Crowd::of(&connect(server.url()).await);
        let rival = connect(server.url()).await;
        let mut turns = [0; 21];
        for turns in &mut turns {
            // Nothing is known of the rival any more.
            follow_each_other(&server, &crowd).await;
            let before = crowd.turns();
            take(&rival).await;
            *turns = crowd.turns() - before;
        }
        turns.sort();
        // It has a chance in each fifth turn, and is quick enough in many of them.
        assert!(
            turns[turns.len() / 2] < 100,
            "it waited for {turns:?} turns"
        );
    });
}

/// One that polls, and listens to nothing.
#[test]
fn while_another_client_wants_the_key_nobody_follows() {
    steady(async || {
        let server = RedisServer::start();
        let crowd = Crowd::of(&connect(server.url()).await);
        follow_each_other(&server, &crowd).await;
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (mut rival, got) = (server.client(), Arc::<AtomicU64>::default());
        let rival_got = Arc::clone(&got);
        let polling = std::thread::spawn(move || {
            let mut ask = |command: &[&str]| rival.command(command).expect("the server runs");
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                let set = ask(&["SET", "k", "rival", "NX", "PX", "30000"]);
                if set.text().is_some() {
                    ask(&["DEL", "k"]);
                    rival_got.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        eventually(PROMPT, "it polls", || async {
            got.load(Ordering::Relaxed) > 10
        })
        .await;
        let listening = listening(&server, &crowd, 1000).await;
        drop(stop);
        polling.join().expect("the server runs");
        assert!(listening > 1.3, "only {listening} of them listened");
    });
}
