//! The trait that the author of a backend implements for a store under test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{DistributedLock, LockGuard, LockKey, LockRequest};

use crate::servers::ServerProcess;

/// A store under test: its clients, its contents, and the actions of operators and faults.
///
/// Each case gets a store of its own: a private server, or a namespace of a shared server. No other
/// case uses it at the same time.
///
/// Only the first two methods are required. Without the other methods some cases are skipped, and
/// the output of the tests says so.
///
/// The [crate documentation](crate) has an example.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Connects a new client that shares no connection, session or state with the clients before.
    ///
    /// The client represents another process.
    async fn client(&self) -> Arc<dyn DistributedLock>;

    /// Returns the entries of lock clients on the store, as readable text.
    ///
    /// These are holds, places in queues and marks of waiters, but no entries that stay by design,
    /// such as a fencing counter.
    async fn residue(&self) -> Vec<String>;

    /// Removes every hold on `key` without its clients, as an operator would; waiters stay.
    ///
    /// Returns true once the holds are removed. Default: false, since the store cannot do it.
    async fn remove(&self, key: &LockKey) -> bool {
        let _ = key;
        false
    }

    /// Takes the lock of `request` with a client that dies at once, and never renews or releases
    /// it.
    ///
    /// Returns true once the lock is taken. Default: false, since the store cannot do it.
    ///
    /// Killing a child process is the best implementation. Writing the entries of such a process to
    /// the store is as good. [`crash_with_runtime`] does it for clients that renew on the runtime
    /// of the caller.
    async fn crash(&self, request: LockRequest) -> bool {
        let _ = request;
        false
    }

    /// Returns the server, if the store has a private server with a single process.
    ///
    /// Such a store can be frozen. Default: `None`.
    fn process(&self) -> Option<&ServerProcess> {
        None
    }

    /// Stops all answers of the store until [`thaw`](Self::thaw), without closing a connection.
    ///
    /// Returns true once the store is frozen. Default: freezes its [`process`](Self::process), if
    /// that is not `None`.
    ///
    /// Only cases that [need](crate::Case::needs) it call this method. A store on a shared server
    /// can use a private server for them.
    async fn freeze(&self) -> bool {
        self.process().map(ServerProcess::freeze).is_some()
    }

    /// Makes a frozen store answer again; has no effect on a store that is not frozen.
    ///
    /// Default: continues its [`process`](Self::process).
    async fn thaw(&self) {
        if let Some(process) = self.process() {
            process.thaw();
        }
    }

    /// Ends the server at once, as a crash does, and starts a server with all confirmed data.
    ///
    /// The new server may be the same or another server. Returns true once it runs. Default: false,
    /// since the store cannot do it.
    ///
    /// Only cases that [need](crate::Case::needs) it call this method. The store can use a server
    /// that keeps its data for them.
    async fn switch_over(&self) -> bool {
        false
    }

    /// Returns the text that another process needs to connect to this store, for example a URL.
    ///
    /// Default: `None`, as for a store in the memory of this process.
    ///
    /// The function that is named in [`roles!`](crate::roles) gets the text. Write that macro at
    /// the root of the test target.
    fn address(&self) -> Option<String> {
        None
    }

    /// Returns true if the store ends a hold as soon as the connection of its holder is closed.
    ///
    /// Default: false; a hold without a holder lasts for its ttl.
    fn ends_with_connection(&self) -> bool {
        false
    }

    /// Returns true if clients that want the same key all the time get it in turns.
    ///
    /// The turns must not depend on how often a client asks. Default: false, as for a store whose
    /// waiters poll.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Returns the ttl for cases that watch the renewal or the loss of a lease. Default: 1 second.
    ///
    /// A shorter ttl makes the cases faster, but a busy machine must be able to renew at a third of
    /// it. If the store has whole seconds or a minimum, return a ttl that it grants exactly.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns the time limit for an answer, a wake-up or a clean-up. Default: 5 seconds.
    ///
    /// Each of these takes a few round trips. Cases fail after the limit, so it has to suit a busy
    /// machine. It has to be far below 40 seconds, the ttl of holds that must not expire during a
    /// case.
    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Takes the lock of `request` on a new runtime, which is then dropped without a release.
///
/// It crashes a client that renews its holds on the runtime of the caller. Other clients continue
/// to renew. Returns true if the lock was granted.
///
/// # Panics
///
/// If the acquisition fails with an error.
pub async fn crash_with_runtime(locks: Arc<dyn DistributedLock>, request: LockRequest) -> bool {
    let crash = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for the client that crashes");
        let guard: Option<LockGuard> = runtime
            .block_on(locks.acquire(request))
            .expect("the client that crashes acquires");
        let granted = guard.is_some();
        // A killed process runs no destructor either.
        std::mem::forget(guard);
        granted
    };
    tokio::task::spawn_blocking(crash)
        .await
        .expect("the client that crashes does not panic")
}
