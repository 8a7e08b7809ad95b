//! Runtimes and programs that end while a guard is held, or just after it was dropped.

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
            // Like a guard in a static, which is never dropped.
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

/// Keeps the guard until the task is dropped.
async fn keep(guard: LockGuard) {
    let _held = guard;
    pending::<()>().await;
}
