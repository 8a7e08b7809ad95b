//! Clients and runtimes of these tests.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lock_core::backend::Clock;
use lock_core::blocking::Client;
use lock_core::{LockRequest, MemoryLock};
use tokio::runtime::{Builder, Runtime};

pub(crate) const MOMENT: Duration = Duration::from_millis(20);
pub(crate) const TTL: Duration = Duration::from_millis(600);
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn client(locks: &MemoryLock) -> Client {
    Client::new(Arc::new(locks.clone())).expect("a thread starts")
}

pub(crate) fn request() -> LockRequest {
    LockRequest::exclusive("k").expect("a key").with_ttl(TTL)
}

pub(crate) fn current_thread() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

pub(crate) fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Waits until `predicate` is true, and panics after the limit.
pub(crate) fn eventually(what: &str, predicate: impl Fn() -> bool) {
    let began = Clock::Boot.now();
    while !predicate() {
        assert!(Clock::Boot.now().since(began) < LIMIT, "{what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}
