//! Programs and runtimes that end while a lock is held, or right after it was dropped.

use std::time::Duration;

use lock_testkit::eventually;
use lock_testkit::servers::RedisServer;

use crate::child::Child;
use crate::is_empty;

const FLAVORS: [&str; 2] = ["current_thread", "multi_thread"];

/// Far below the ttl, and enough for a busy machine.
const PROMPTLY: Duration = Duration::from_secs(3);

fn assert_no_panic(errors: &str) {
    assert!(!errors.contains("panicked"), "{errors}");
}

/// Ends a runtime in `shape`; the process lives on, and with it the keeper thread.
async fn released_at_once(shape: &str) {
    let server = RedisServer::start();
    for flavor in FLAVORS {
        let mut child = Child::start(&server, &format!("end {flavor} {shape} 60000"));
        assert_eq!(child.says(), "ended");
        let what = format!("{flavor}: the key is gone");
        let gone = || async { is_empty(&server) };
        eventually(PROMPTLY, &what, gone).await;
        child.nudge();
        let (status, errors) = child.end();
        assert_no_panic(&errors);
        assert!(status.success(), "{flavor}: {status}");
    }
}

#[tokio::test]
async fn a_runtime_that_is_dropped_releases_what_its_tasks_held() {
    released_at_once("runtime_dropped_with_task").await;
}

#[tokio::test]
async fn a_guard_dropped_before_a_shutdown_in_the_background_is_released() {
    released_at_once("shutdown_background").await;
}

#[tokio::test]
async fn a_shutdown_with_a_timeout_releases_what_its_tasks_held() {
    released_at_once("shutdown_timeout").await;
}

#[tokio::test]
async fn a_guard_dropped_after_its_runtime_is_released() {
    released_at_once("dropped_after_runtime").await;
}

/// Whether the release still gets out is a race that nobody can win for sure; the ttl is certain.
#[tokio::test]
async fn returning_from_main_frees_the_lock_by_its_ttl_at_the_latest() {
    const TTL: Duration = Duration::from_secs(2);
    let server = RedisServer::start();
    let shapes = ["main_right_after_drop", "main_while_held"];
    let endings = FLAVORS
        .into_iter()
        .flat_map(|flavor| shapes.map(|shape| (flavor, shape)));
    for (flavor, shape) in endings {
        let role = format!("end {flavor} {shape} {}", TTL.as_millis());
        let mut child = Child::start(&server, &role);
        assert_eq!(child.says(), "returns");
        let (status, errors) = child.end();
        assert_no_panic(&errors);
        assert!(status.success(), "{flavor}: {status}");
        let what = format!("{flavor}: the key is gone");
        let gone = || async { is_empty(&server) };
        eventually(TTL + PROMPTLY, &what, gone).await;
    }
}
