//! Programs and runtimes that end while a lock is held, or right after it was dropped.

use std::time::Duration;

use lock_core::Mode;
use lock_testkit::processes::{Child, Ending, Flavor, Role};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{eventually, steady};

use crate::{claims, request};

/// Far below the ttl, and enough for a busy machine.
const PROMPTLY: Duration = Duration::from_secs(3);

fn assert_no_panic(errors: &str) {
    assert!(!errors.contains("panicked"), "{errors}");
}

fn start(cluster: &EtcdCluster, ttl: Duration, flavor: Flavor, ending: Ending) -> Child {
    let request = request("k", Mode::Exclusive, ttl);
    let mut child = Child::start(cluster.url(), &request, Role::End(flavor, ending));
    child.token();
    child
}

/// Ends a runtime; the process lives on, and with it the keeper thread.
async fn released_at_once(ending: Ending) {
    const LONG: Duration = Duration::from_secs(60);
    let cluster = EtcdCluster::start(1);
    for flavor in Flavor::ALL {
        let mut child = start(&cluster, LONG, flavor, ending);
        assert_eq!(child.says(), "ended");
        let what = format!("{flavor:?}: the key is gone");
        let gone = || async { claims(&cluster, "k").is_empty() };
        eventually(PROMPTLY, &what, gone).await;
        child.nudge();
        let (status, errors) = child.end();
        assert_no_panic(&errors);
        assert!(status.success(), "{flavor:?}: {status}");
    }
}

#[test]
fn a_runtime_that_is_dropped_releases_what_its_tasks_held() {
    steady(async || {
        released_at_once(Ending::RuntimeWithTask).await;
    });
}

#[test]
fn a_guard_dropped_before_a_shutdown_in_the_background_is_released() {
    steady(async || {
        released_at_once(Ending::ShutdownBackground).await;
    });
}

#[test]
fn a_shutdown_with_a_timeout_releases_what_its_tasks_held() {
    steady(async || {
        released_at_once(Ending::ShutdownTimeout).await;
    });
}

#[test]
fn a_guard_dropped_after_its_runtime_is_released() {
    steady(async || {
        released_at_once(Ending::DropAfterRuntime).await;
    });
}

/// The release may or may not be sent before the end; the ttl is certain.
#[test]
fn returning_from_main_frees_the_lock_by_its_ttl_at_the_latest() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(2);
        let cluster = EtcdCluster::start(1);
        let endings = [Ending::MainAfterDrop, Ending::MainWhileHeld];
        let each = Flavor::ALL
            .into_iter()
            .flat_map(|flavor| endings.map(|ending| (flavor, ending)));
        for (flavor, ending) in each {
            let mut child = start(&cluster, TTL, flavor, ending);
            assert_eq!(child.says(), "returns");
            let (status, errors) = child.end();
            assert_no_panic(&errors);
            assert!(status.success(), "{flavor:?}: {status}");
            let what = format!("{flavor:?}: the key is gone");
            let gone = || async { claims(&cluster, "k").is_empty() };
            eventually(TTL + PROMPTLY, &what, gone).await;
        }
    });
}
