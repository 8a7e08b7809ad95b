//! Tests of child processes, each with a lock in its own memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::{LockRequest, MemoryLock};
use lock_testkit::processes::{Child, Ending, Flavor, Role};
use lock_testkit::{assert_excluded, steady};

const TTL: Duration = Duration::from_secs(1);

/// The name of a store on which a child reports two holders.
const TWO_HOLDERS: &str = "shared by two";

async fn connect(store: String) -> MemoryLock {
    assert_excluded!(store != TWO_HOLDERS, "in a child");
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

/// Returns the number of runs of a test that fails on its first run, while the process is stopped.
fn runs_of_a_test_that_fails_once(failure: impl Fn()) -> u32 {
    let runs = AtomicU32::new(0);
    let test = async || {
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            // Stop this process, as a busy host stops a virtual machine.
            let stopping = ["-c", "kill -STOP $PPID; sleep 0.4; kill -CONT $PPID"];
            let stopped = Command::new("sh").args(stopping).status();
            assert!(stopped.expect("sh is on the path").success());
            failure();
        }
    };
    let _failure = catch_unwind(AssertUnwindSafe(|| steady(test)));
    runs.into_inner()
}

#[test]
fn two_holders_that_a_child_has_seen_are_not_excused_by_a_standstill() {
    let in_a_child = || {
        let request = LockRequest::exclusive("k").expect("a key");
        let _token = Child::start(TWO_HOLDERS, &request, Role::Hold).token();
    };
    assert_eq!(runs_of_a_test_that_fails_once(in_a_child), 1);
}

#[test]
fn two_holders_in_a_thread_are_not_excused_by_a_standstill() {
    let in_a_thread = || {
        let thread = std::thread::spawn(|| assert_excluded!(1 == 2));
        assert!(thread.join().is_ok(), "the thread has failed");
    };
    assert_eq!(runs_of_a_test_that_fails_once(in_a_thread), 1);
}
