//! Errors of blocking calls.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::blocking::Client;
use lock_core::{
    Capabilities, DistributedLock, Error, ErrorKind, LockGuard, LockRequest, MemoryLock, Result,
};

use crate::support::{client, request};

/// A store whose every request fails.
#[derive(Debug)]
struct Broken;

#[async_trait]
impl DistributedLock for Broken {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("broken")
    }

    async fn acquire(&self, _: LockRequest) -> Result<Option<LockGuard>> {
        Err(Error::new(ErrorKind::Unavailable, "no answer"))
    }
}

#[test]
fn errors_are_passed_on() {
    let kind = |result: Result<()>| result.unwrap_err().kind();
    let locks = Client::new(Arc::new(Broken)).unwrap();
    let minute = Duration::from_secs(60);
    assert_eq!(kind(locks.lock("k").map(drop)), ErrorKind::Unavailable);
    assert_eq!(kind(locks.try_lock("k").map(drop)), ErrorKind::Unavailable);
    assert_eq!(kind(locks.lock("").map(drop)), ErrorKind::InvalidKey);
    assert_eq!(
        kind(locks.lock_all(["a", ""]).map(drop)),
        ErrorKind::InvalidKey
    );
    assert_eq!(
        kind(locks.lock_all(["a"]).map(drop)),
        ErrorKind::Unavailable
    );
    assert_eq!(kind(locks.shutdown(minute)), ErrorKind::Unsupported);
    assert_eq!(kind(locks.ping().map(drop)), ErrorKind::Unsupported);
    let done = locks.with_lock(request(), |_| panic!("without a lock"));
    assert_eq!(kind(done.map(drop::<Option<()>>)), ErrorKind::Unavailable);
    let refused = Client::connect(async { Err(Error::new(ErrorKind::Denied, "no")) });
    assert_eq!(kind(refused.map(drop)), ErrorKind::Denied);
}

/// A call that waits for its own thread would wait for ever.
#[test]
fn calls_on_the_thread_of_blocking_calls_are_refused() {
    let locks = client(&MemoryLock::new());
    let connecting = async move {
        locks.lock("k").map(drop)?;
        Ok(Arc::new(Broken) as Arc<dyn DistributedLock>)
    };
    let error = Client::connect(connecting).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[test]
fn health_is_that_of_the_async_client() {
    let store = MemoryLock::new();
    let locks = client(&store);
    let _guard = locks.lock("k").unwrap();
    assert_eq!(locks.health().holds, Some(1));
    locks.ping().unwrap();
    locks.shutdown(Duration::from_secs(60)).unwrap();
    assert_eq!(locks.ping().unwrap_err().kind(), ErrorKind::Closed);
}
