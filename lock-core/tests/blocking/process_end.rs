//! The end of a process that has a client.

use std::process::{Child, Command};
use std::thread;

use lock_core::MemoryLock;
use lock_core::backend::Clock;

use crate::support::{LIMIT, MOMENT, client};

const CHILD: &str = "POLYLOCK_BLOCKING_CHILD";

/// Takes a lock and leaves it to the end of the process; does nothing if this is no child.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        let locks = client(&MemoryLock::new());
        let guard = locks.lock("k").unwrap();
        assert!(guard.is_held());
        std::mem::forget((locks, guard));
    }
}

/// Kills the child if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _has_ended = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn a_process_ends_although_it_has_a_client_and_a_guard() {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command
        .args(["--exact", "process_end::child", "--quiet"])
        .env(CHILD, "1");
    let mut child = Running(command.spawn().unwrap());
    let began = Clock::Boot.now();
    let status = loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            break status;
        }
        assert!(Clock::Boot.now().since(began) < LIMIT, "the child hangs");
        thread::park_timeout(MOMENT);
    };
    assert!(status.success(), "{status}");
}
