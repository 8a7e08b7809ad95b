//! Stops and continues a child process.

use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Stops `child` with `SIGSTOP`; returns once it has stopped.
pub(crate) fn freeze(child: &mut Child) {
    signal(child, Signal::STOP);
    // Returns when the process has stopped or ended, and leaves its exit status to later waits.
    let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), until).expect("it is our child");
}

/// Continues a stopped `child`; has no effect on a child that runs.
pub(crate) fn thaw(child: &mut Child) {
    signal(child, Signal::CONT);
}

fn signal(child: &mut Child, signal: Signal) {
    // The process id of a child that has ended may belong to another process by now.
    if let Ok(Some(status)) = child.try_wait() {
        panic!("process {} is not running any more: {status}", child.id());
    }
    kill_process(Pid::from_child(child), signal).expect("it is our child");
}
