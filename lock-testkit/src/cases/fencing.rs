//! Tokens grow from grant to grant.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{FencingToken, LockGuard, Mode, Wait};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::client::{Client, release};
use crate::eventually::within;
use crate::join::join_all;

/// The tokens of one key in the order of their grants.
#[derive(Debug, Default)]
struct Tokens(Vec<FencingToken>);

impl Tokens {
    fn add(&mut self, guard: &LockGuard) {
        let token = guard.token();
        if let Some(last) = self.0.last() {
            assert!(
                token > *last,
                "grant {} of {:?} has token {token}, not greater than the {last} of the grant before",
                self.0.len() + 1,
                guard.key()
            );
        }
        self.0.push(token);
    }
}

pub(crate) async fn tokens_grow_over_clients(bench: Bench) {
    let clients: [Client; 3] = bench.clients().await;
    let mut tokens = Tokens::default();
    for round in 0..30 {
        let client = &clients[round % clients.len()];
        let guard = client.wait_for(&bench.exclusive("counted")).await;
        tokens.add(&guard);
        if round % 2 == 0 {
            release(guard).await;
        }
    }
}

pub(crate) async fn tokens_grow_over_new_clients(bench: Bench) {
    let mut tokens = Tokens::default();
    for _ in 0..10 {
        // The client before is gone by now, and its local state with it.
        let client = bench.client().await;
        let guard = client.take(&bench.exclusive("counted")).await;
        tokens.add(&guard);
        release(guard).await;
    }
}

pub(crate) async fn tokens_grow_over_modes(bench: Bench) {
    let clients: [Client; 2] = bench.clients().await;
    let mut tokens = Tokens::default();
    for round in 0..4 {
        for mode in bench.modes() {
            let mut guards = Vec::new();
            let holders = match mode {
                Mode::Exclusive | Mode::Upgradeable => 1,
                _ => 2,
            };
            for client in &clients[..holders] {
                let guard = client.wait_for(&bench.request("counted", mode)).await;
                tokens.add(&guard);
                guards.push(guard);
            }
            if round % 2 == 0 {
                guards.reverse();
            }
        }
    }
}

pub(crate) async fn tokens_grow_under_contention(bench: Bench) {
    let clients: [Client; 3] = bench.clients().await;
    let tokens = Arc::new(Mutex::new(Tokens::default()));
    let mut tasks = JoinSet::new();
    for task in 0..12 {
        let (client, tokens) = (clients[task % clients.len()].clone(), Arc::clone(&tokens));
        let request = bench.exclusive("contended").with_wait(Wait::Forever);
        tasks.spawn(async move {
            for _ in 0..8 {
                let guard = client.acquire(request.clone()).await.expect("no end");
                // Ignore that another task has panicked: its failure is reported on its own.
                locked(&tokens).add(&guard);
                tokio::task::yield_now().await;
            }
        });
    }
    within(12 * bench.prompt(), "all of 96 grants", join_all(tasks)).await;
}

pub(crate) async fn tokens_grow_after_a_removal(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let mut tokens = Tokens::default();
    for mode in bench.modes().repeat(3) {
        let stale = ours.wait_for(&bench.request("counted", mode)).await;
        tokens.add(&stale);
        if !bench.remove("counted").await {
            return;
        }
        let next = theirs.wait_for(&bench.exclusive("counted")).await;
        tokens.add(&next);
        drop(stale);
        release(next).await;
    }
}

pub(crate) async fn tokens_grow_after_a_crash(bench: Bench) {
    let client = bench.client().await;
    let mut tokens = Tokens::default();
    let guard = client.take(&bench.exclusive("counted")).await;
    tokens.add(&guard);
    release(guard).await;
    if !bench.crash(bench.brief("counted", Mode::Exclusive)).await {
        return;
    }
    let waiting = client.acquire(bench.exclusive("counted").with_wait(Wait::Forever));
    let guard = within(
        bench.short() + bench.prompt(),
        "the lock free after a crash",
        waiting,
    )
    .await;
    tokens.add(&guard.expect("no end"));
}

pub(crate) async fn tokens_are_decimal_text(bench: Bench) {
    let guard = bench.client().await.take(&bench.exclusive("printed")).await;
    let token = guard.token();
    assert_eq!(token.to_string().parse(), Ok(token.value()));
    assert!(
        i64::try_from(token.value()).is_ok(),
        "{token} does not fit in a signed column of a database"
    );
}

fn locked(tokens: &Mutex<Tokens>) -> MutexGuard<'_, Tokens> {
    tokens.lock().unwrap_or_else(PoisonError::into_inner)
}
