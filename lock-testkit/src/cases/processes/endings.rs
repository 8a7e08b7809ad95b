//! Programs and runtimes that end while a lock is held, or just after its guard was dropped.

use lock_core::{LockRequest, Mode, Wait};
use tokio::task::{JoinSet, block_in_place};

use super::SLACK;
use crate::bench::Bench;
use crate::client::{Client, release};
use crate::eventually::within;
use crate::join::join_all;
use crate::processes::{Child, Ending, Flavor, Role};

pub(crate) async fn a_runtime_that_is_dropped_releases_what_its_tasks_held(bench: Bench) {
    released_at_once(&bench, Ending::RuntimeWithTask).await;
}

pub(crate) async fn a_guard_dropped_before_a_shutdown_in_the_background_is_released(bench: Bench) {
    released_at_once(&bench, Ending::ShutdownBackground).await;
}

pub(crate) async fn a_shutdown_with_a_timeout_releases_what_its_tasks_held(bench: Bench) {
    released_at_once(&bench, Ending::ShutdownTimeout).await;
}

pub(crate) async fn a_guard_dropped_after_its_runtime_is_released(bench: Bench) {
    released_at_once(&bench, Ending::DropAfterRuntime).await;
}

/// Asserts that the end of a runtime releases at once.
///
/// The process lives on, and so does its keeper thread.
async fn released_at_once(bench: &Bench, ending: Ending) {
    let client = bench.client().await;
    let mut tasks = JoinSet::new();
    for flavor in Flavor::ALL {
        let (bench, client) = (bench.clone(), client.clone());
        tasks.spawn(async move {
            let request = bench.exclusive(&format!("ended/{flavor:?}"));
            let (mut child, _) = bench.holder(&request, Role::End(flavor, ending));
            assert_eq!(block_in_place(|| child.says()), "ended");
            let what = format!("free after {ending:?} of {flavor:?}");
            let waiting = client.acquire(request.with_wait(Wait::Forever));
            let next = within(bench.prompt(), &what, waiting).await;
            release(next.expect("no end")).await;
            child.nudge();
            ends_well(&mut child, &what);
        });
    }
    join_all(tasks).await;
}

fn ends_well(child: &mut Child, what: &str) {
    let (status, errors) = block_in_place(|| child.end());
    assert!(!errors.contains("panicked"), "{what}: {errors}");
    assert!(status.success(), "{what}: {status}");
}

/// The release may or may not be sent before the process ends; only the ttl is certain.
pub(crate) async fn returning_from_main_frees_the_lock_by_its_ttl_at_the_latest(bench: Bench) {
    let client = bench.client().await;
    let mut tasks = JoinSet::new();
    for flavor in Flavor::ALL {
        for ending in [Ending::MainAfterDrop, Ending::MainWhileHeld] {
            let request = bench.brief(&format!("{flavor:?}/{ending:?}"), Mode::Exclusive);
            tasks.spawn(free_by_its_ttl(
                bench.clone(),
                client.clone(),
                request,
                Role::End(flavor, ending),
            ));
        }
    }
    join_all(tasks).await;
}

async fn free_by_its_ttl(bench: Bench, client: Client, request: LockRequest, role: Role) {
    let (mut child, _) = bench.holder(&request, role);
    assert_eq!(block_in_place(|| child.says()), "returns");
    ends_well(&mut child, &format!("{role:?}"));
    let limit = bench.short() + SLACK;
    let what = format!("free by its ttl after {role:?}");
    let waiting = client.acquire(request.with_wait(Wait::Forever));
    release(within(limit, &what, waiting).await.expect("no end")).await;
}
