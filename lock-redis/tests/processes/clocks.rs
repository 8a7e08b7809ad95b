//! Clocks that a program or its tests may move: none of them is the clock of a hold on a server.

use std::thread::park_timeout;
use std::time::Duration;

use lock_core::{DistributedLockExt, Mode, Released};
use lock_testkit::servers::RedisServer;

use crate::{connect, take};

#[tokio::test(start_paused = true)]
async fn paused_time_loses_nothing() {
    const TTL: Duration = Duration::from_secs(1);
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    let guard = take(&locks, "k", Mode::Exclusive, TTL).await;
    for _ in 0..10 {
        tokio::time::advance(TTL * 3600).await;
        assert!(guard.is_held(), "lost by time that did not pass");
    }
    // Real time goes on, and with it the renewals.
    for _ in 0..4 {
        let passing = tokio::task::spawn_blocking(|| park_timeout(TTL / 2));
        passing.await.expect("it only waits");
    }
    assert!(guard.is_held(), "not renewed while time was paused");
    assert!(locks.try_lock("k").await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}
