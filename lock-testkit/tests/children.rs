//! Children of a test, each with a lock in its own memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lock_core::{LockRequest, MemoryLock};
use lock_testkit::processes::{Child, Ending, Flavor, Role};

const TTL: Duration = Duration::from_secs(1);

async fn connect(store: String) -> MemoryLock {
    assert_eq!(store, "in memory");
    MemoryLock::new()
}

lock_testkit::roles!(connect);

fn start(role: Role) -> Child {
    let request = LockRequest::exclusive("with space")
        .expect("a key")
        .with_ttl(TTL);
    Child::start("in memory", &request, role)
}

#[test]
fn a_holder_is_there_until_it_is_killed() {
    let mut child = start(Role::Hold);
    assert!(child.token() > 0);
    child.freeze();
    child.thaw();
    let (status, _) = child.kill();
    assert!(!status.success(), "{status}");
}

#[test]
fn each_nudge_is_answered() {
    let mut child = start(Role::Tell);
    child.token();
    for _ in 0..3 {
        child.nudge();
        let said = child.says();
        assert!(said.ends_with(" true"), "{said}");
    }
}

#[test]
fn a_program_ends_well_or_aborts() {
    for (role, well) in [
        (Role::Abort, false),
        (
            Role::End(Flavor::CurrentThread, Ending::MainAfterDrop),
            true,
        ),
    ] {
        let mut child = start(role);
        child.token();
        let (status, errors) = child.end();
        assert_eq!(status.success(), well, "{role:?}: {status}\n{errors}");
    }
}

#[test]
fn a_child_that_fails_shows_why() {
    let request = LockRequest::exclusive("k").expect("a key");
    let mut child = Child::start("elsewhere", &request, Role::Hold);
    let silence = catch_unwind(AssertUnwindSafe(|| child.says())).expect_err("it has failed");
    let message = silence.downcast_ref::<String>().expect("a message");
    assert!(message.contains("elsewhere"), "{message}");
}
