//! Runtimes and programs that end while a guard is held, or was dropped just now.

use std::future::pending;
use std::time::Duration;

use lock_core::{DistributedLock, LockGuard};
use tokio::runtime::Runtime;

use super::Ending;
use super::parent::Parent;

pub(super) fn end(
    parent: &Parent,
    runtime: Runtime,
    locks: impl DistributedLock,
    guard: LockGuard,
    ending: Ending,
) {
    let limit = Duration::from_millis(100);
    match ending {
        Ending::MainAfterDrop => {
            drop((guard, locks));
            return parent.say("returns");
        }
        Ending::MainWhileHeld => {
            // As from a static: nothing drops it.
            std::mem::forget(guard);
            return parent.say("returns");
        }
        Ending::RuntimeWithTask => {
            runtime.spawn(keep(guard));
            drop(runtime);
        }
        Ending::ShutdownBackground => {
            drop(guard);
            runtime.shutdown_background();
        }
        Ending::ShutdownTimeout => {
            runtime.spawn(keep(guard));
            runtime.shutdown_timeout(limit);
        }
        Ending::DropAfterRuntime => {
            drop(runtime);
            drop(guard);
        }
    }
    parent.say("ended");
    parent.wait_for_nudge();
    drop(locks);
}

/// A task that has the guard until it is dropped itself.
async fn keep(guard: LockGuard) {
    let _held = guard;
    pending::<()>().await;
}
