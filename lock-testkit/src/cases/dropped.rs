//! Dropped guards, releases, tasks, clients and runtimes leave nothing behind.

use std::future::pending;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{LockRequest, LossReason, Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::cancellation::{POLLS_MAX, assert_free};
use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, SETTLE, release};
use crate::eventually::within;
use crate::join::joined;
use crate::polls::poll_times;

pub(crate) async fn a_dropped_release_still_releases(bench: Bench) {
    let [client, other] = bench.clients().await;
    for polls in 0..POLLS_MAX {
        let guard = client.take(&bench.exclusive("let go")).await;
        let released = poll_times(guard.release(), polls, bench.prompt()).await;
        let what = format!("free after the release was dropped at poll {polls}");
        assert_free(&bench, &other, "let go", &what).await;
        if let Some(released) = released {
            assert_eq!(released.expect("confirmed"), Released::Released);
            return;
        }
    }
    panic!("not released after {POLLS_MAX} polls");
}

pub(crate) async fn a_dropped_guard_releases(bench: Bench) {
    let [client, other] = bench.clients().await;
    for mode in bench.modes() {
        let guard = client.take(&bench.request("dropped", mode)).await;
        let watch = guard.watch();
        drop(guard);
        assert_excluded!(!watch.is_held(), "still held after its guard was dropped");
        let what = format!("free after a guard of {mode:?} was dropped");
        assert_free(&bench, &other, "dropped", &what).await;
    }
}

pub(crate) async fn a_guard_dropped_outside_a_runtime_releases(bench: Bench) {
    let [client, other] = bench.clients().await;
    let request = bench.brief("carried off", Mode::Exclusive);
    let guard = client.take(&request).await;
    let dropping = tokio::task::spawn_blocking(|| {
        // A blocking thread of the runtime counts as inside it, so use another thread.
        std::thread::spawn(|| drop(guard)).join()
    });
    let dropped = joined(dropping.await);
    assert!(dropped.is_ok(), "the drop outside a runtime panicked");
    let what = "a guard was dropped outside a runtime";
    assert_free_after(&bench, &other, &request, what).await;
}

pub(crate) async fn a_panic_releases(bench: Bench) {
    let [client, other] = bench.clients().await;
    let guard = client.take(&bench.exclusive("panicked")).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _held = guard;
        tokio::task::yield_now().await;
        // Like a panic, but without a message in the output of a test that passes.
        std::panic::resume_unwind(Box::new("the critical section panics"));
    });
    let ended = tasks.join_next().await.expect("one task");
    assert!(ended.is_err_and(|error: tokio::task::JoinError| error.is_panic()));
    assert_free(&bench, &other, "panicked", "free after its holder panicked").await;
}

pub(crate) async fn an_aborted_task_releases(bench: Bench) {
    let [client, other] = bench.clients().await;
    let mut tasks = JoinSet::new();
    let guard = client.take(&bench.exclusive("aborted")).await;
    tasks.spawn(async move {
        let _held = guard;
        pending::<()>().await;
    });
    let waiting = client.acquire(bench.exclusive("aborted").with_wait(Wait::Forever));
    tasks.spawn(async move {
        let _held = waiting.await;
        pending::<()>().await;
    });
    sleep(SETTLE).await;
    tasks.shutdown().await;
    let what = "free after holder and waiter were aborted";
    assert_free(&bench, &other, "aborted", what).await;
}

pub(crate) async fn a_client_dropped_after_its_guard_releases(bench: Bench) {
    let other = bench.client().await;
    for _ in 0..10 {
        let client = bench.client().await;
        let guard = client.take(&bench.exclusive("left")).await;
        // The release is under way while the last handle of its client is dropped.
        drop(guard);
        drop(client);
        let what = "free after guard and client were dropped";
        assert_free(&bench, &other, "left", what).await;
    }
}

pub(crate) async fn a_hold_ends_with_its_runtime(bench: Bench) {
    let [client, other] = bench.clients().await;
    let request = bench.brief("shut down", Mode::Exclusive);
    let acquiring = client.acquire(request.clone());
    shut_down_with(async move {
        let _held = acquiring.await.expect("it is free");
        pending::<()>().await;
    })
    .await;
    let what = "the runtime of its holder was shut down";
    assert_free_after(&bench, &other, &request, what).await;
}

pub(crate) async fn a_waiter_ends_with_its_runtime(bench: Bench) {
    let [client, other] = bench.clients().await;
    let request = bench.brief("shut down", Mode::Exclusive);
    let guard = other.take(&request).await;
    let waiting = client.acquire(request.clone().with_wait(Wait::Forever));
    shut_down_with(async move {
        drop(waiting.await);
        pending::<()>().await;
    })
    .await;
    release(guard).await;
    let what = "the runtime of a waiter was shut down";
    assert_free_after(&bench, &other, &request, what).await;
}

pub(crate) async fn a_guard_outlives_its_runtime(bench: Bench) {
    let [client, other] = bench.clients().await;
    let request = bench.brief("moved", Mode::Exclusive);
    let acquiring = client.acquire(request.clone());
    let living = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime to shut down");
        runtime.block_on(acquiring).expect("it is free")
    });
    let guard = joined(living.await);
    // The client may or may not renew on another runtime. In either case the guard has to be right.
    let limit = bench.short() + Duration::from_millis(500);
    match timeout(limit, guard.lost()).await {
        Ok(reason) => assert_eq!(reason, LossReason::Expired),
        Err(_) => other.is_refused_beside(&guard, &request).await,
    }
    let dropping = tokio::task::spawn_blocking(|| std::thread::spawn(|| drop(guard)).join());
    let dropped = joined(dropping.await);
    assert!(dropped.is_ok(), "the drop after its runtime panicked");
    assert_free_after(&bench, &other, &request, "a guard outlived its runtime").await;
}

/// Runs `work` on a new runtime, and shuts the runtime down while `work` runs.
async fn shut_down_with(work: impl Future<Output = ()> + Send + 'static) {
    let living = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime to shut down");
        let _task = runtime.spawn(work);
        runtime.block_on(sleep(Duration::from_millis(50)));
    });
    joined(living.await);
}

/// Asserts that the lock becomes free at once, or by its ttl.
async fn assert_free_after(bench: &Bench, client: &Client, request: &LockRequest, what: &str) {
    let limit = request.ttl() + bench.prompt();
    let waiting = client.acquire(request.clone().with_wait(Wait::Forever));
    let guard = within(limit, &format!("free after {what}"), waiting).await;
    drop(guard);
}
