//! Stops a child process where it stands, and lets it go on.

use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Stops `child` where it stands; returns when it does.
pub(crate) fn freeze(child: &mut Child) {
    signal(child, Signal::STOP);
    // Returns when the process has stopped or ended, and takes nothing from who waits for its end.
    let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), until).expect("it is our child");
}

/// Lets a stopped `child` go on; harmless when it is not stopped.
pub(crate) fn thaw(child: &mut Child) {
    signal(child, Signal::CONT);
}

fn signal(child: &mut Child, signal: Signal) {
    // The process id of one that has ended may be another's by now.
    if let Ok(Some(status)) = child.try_wait() {
        panic!("process {} is not running any more: {status}", child.id());
    }
    kill_process(Pid::from_child(child), signal).expect("it is our child");
}
