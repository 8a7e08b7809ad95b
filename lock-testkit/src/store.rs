//! What the author of a backend implements to have it tested.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{DistributedLock, LockGuard, LockKey, LockRequest};

use crate::servers::ServerProcess;

/// A store under test, as the cases see it: new clients, what is left on it, and what an operator
/// or a fault may do to it.
///
/// Each case gets a store of its own, that nobody else uses meanwhile: a private server, or a
/// namespace of a shared one. The first two methods are all that is needed; each of the others
/// opens cases that are skipped without it, and says so in the output of the test.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// A new client of the store, as another process would be: no connection, no session and no
    /// local state in common with the clients before.
    async fn client(&self) -> Arc<dyn DistributedLock>;

    /// Everything that lock clients have on the store right now, readable for a person: holds,
    /// places in queues, marks of waiters. Not what stays by design, such as a fencing counter.
    async fn residue(&self) -> Vec<String>;

    /// Removes every hold on `key` behind the clients' backs, as an operator would, and leaves the
    /// waiters alone. Returns whether it did. Default: cannot.
    async fn remove(&self, key: &LockKey) -> bool {
        let _ = key;
        false
    }

    /// Takes the lock of `request` with a client that dies at once: from then on nobody renews or
    /// releases it. Returns whether it did. Default: cannot.
    ///
    /// A killed child process is the honest way; what such a process would have written to the
    /// store is as good. [`crash_with_runtime`] does it where holds are renewed on the caller's
    /// runtime.
    async fn crash(&self, request: LockRequest) -> bool {
        let _ = request;
        false
    }

    /// The server, where this store has one for itself that is a single process: then it can be
    /// frozen. Default: none.
    fn process(&self) -> Option<&ServerProcess> {
        None
    }

    /// Makes the store stop answering, without closing a connection, until [`thaw`](Self::thaw).
    /// Returns whether it did. Default: freezes its [`process`](Self::process), if it has one.
    ///
    /// It is called only in cases that [need](crate::Case::needs) it, so a store on a shared
    /// server can be put on a private one for these.
    async fn freeze(&self) -> bool {
        self.process().map(ServerProcess::freeze).is_some()
    }

    /// Lets a frozen store go on; harmless when it is not frozen. Default: lets its
    /// [`process`](Self::process) go on.
    async fn thaw(&self) {
        if let Some(process) = self.process() {
            process.thaw();
        }
    }

    /// Ends the server at once, as a crash does, and has the same or another one go on with all that it
    /// had confirmed. Returns true once that one runs. Default: cannot.
    ///
    /// It is called only in cases that [need](crate::Case::needs) it, so these can be put on a server
    /// that keeps its data.
    async fn switch_over(&self) -> bool {
        false
    }

    /// Returns what another process needs to know to connect to this store: a URL, a namespace, any text.
    /// Default: nothing, as where a store is in the memory of this process.
    ///
    /// The function that is named in [`roles!`](crate::roles) gets it. Write that macro at the root of the
    /// test target.
    fn address(&self) -> Option<String> {
        None
    }

    /// Returns true if the store ends a hold as soon as the connection of its holder is closed. Default: no,
    /// a hold without a holder lasts for its ttl.
    fn ends_with_connection(&self) -> bool {
        false
    }

    /// Whether clients that want the same key all the time get it in turns, however often one of them asks.
    /// Default: no, as where waiters ask now and then and whoever asks first gets it.
    fn takes_turns(&self) -> bool {
        false
    }

    /// The ttl for cases that watch a lease being renewed or lost. Default: 1 second.
    ///
    /// Shorter is faster, but a busy machine must be able to renew at a third of it. Where the
    /// store only knows whole seconds or has a minimum, name one it can give exactly.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How long anything may take that takes a few round trips: an answer, a wake-up, a clean-up.
    /// Default: 5 seconds.
    ///
    /// Cases fail when something is not done by then, so it has to suit a busy machine, and they
    /// hold locks for 40 seconds, so it has to stay far below.
    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Takes the lock of `request` on a runtime of its own that is then dropped without releasing,
/// which is how a client crashes whose holds are renewed on the runtime of the caller.
///
/// Returns whether the lock was granted. Of no use for a client whose holds are renewed elsewhere:
/// it goes on renewing.
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
        // A process that is killed runs no destructor either.
        std::mem::forget(guard);
        granted
    };
    tokio::task::spawn_blocking(crash)
        .await
        .expect("the client that crashes does not panic")
}
