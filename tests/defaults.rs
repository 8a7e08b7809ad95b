//! The defaults of a configuration for requests that set no value.

use std::time::Duration;

use polylock::{DistributedLockExt, ErrorKind, LockRequest, connect};
use tokio::time::Instant;

#[tokio::test]
async fn defaults_apply_to_requests_that_do_not_say_otherwise() {
    let locks = connect("memory://?namespace=defaults&ttl=5s&request_wait=0s")
        .await
        .unwrap();
    let request = LockRequest::exclusive("k").unwrap();
    let guard = locks.acquire(request.clone()).await.unwrap().expect("free");
    assert!(guard.remaining() <= Duration::from_secs(5));
    assert!(
        locks.acquire(request.clone()).await.unwrap().is_none(),
        "waited"
    );
    let own = request
        .with_ttl(Duration::from_secs(9))
        .waiting_at_most(Duration::from_secs(5));
    let (own, released) = tokio::join!(locks.acquire(own), guard.release());
    released.unwrap();
    let remaining = own.unwrap().expect("released").remaining();
    assert!(remaining > Duration::from_secs(5), "{remaining:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_delay_applies_to_requests_that_do_not_say_otherwise() {
    let locks = connect("memory://?namespace=delays&ttl=10s&lock_delay=5s")
        .await
        .unwrap();
    for (own, delay) in [(None, 5), (Some(0), 0), (Some(7), 7)] {
        let mut request = LockRequest::exclusive("k").unwrap();
        request = request.holding_at_most(Duration::from_secs(2));
        request.lock_delay = own.map(Duration::from_secs);
        let lost = locks.acquire(request).await.unwrap().expect("free");
        lost.lost().await;
        let ended = Instant::now();
        drop(locks.lock("k").await.unwrap());
        assert_eq!(ended.elapsed(), Duration::from_secs(delay));
    }
}

#[tokio::test]
async fn a_lock_delay_that_no_request_could_have_is_told_at_once() {
    let error = connect("memory://?ttl=1h&lock_delay=24h")
        .await
        .expect_err("out of range");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("lock delay 24 h with ttl 1 h is out of range for memory: together they may be 24 h at most"),
        "{text}"
    );
}
