//! Members that stop before they have reported the sessions of their clients to the leader.
//!
//! A follower reports twice a tick which sessions are alive, and only the leader ends sessions. The
//! leader does not count a transaction as a sign of life.

use std::time::Duration;

use lock_core::{DistributedLock, KeeperMode, Mode, Wait};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{answered, block_thread, steady};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::{request, take};

/// Takes a lock over a follower after a `pause` of the client, stops the follower at once, and
/// asserts that the hold ends before another client gets the lock.
async fn ends_in_time(ttl: Duration, pause: Duration) {
    let server = ZooKeeperServer::start_three();
    let leader = server.leader();
    let [near, far] = [1, 2].map(|distance| server.member((leader + distance) % 3));
    let connect = async |address: String, keeper| {
        let config = ZooKeeperConfig::new(address).with_chroot("/unreported");
        let config = config.with_keeper(keeper);
        answered(|| ZooKeeperLock::connect(config.clone())).await
    };
    let holder = connect(near.address(), KeeperMode::Caller).await;
    let waiter = connect(far.address(), KeeperMode::Thread).await;
    let wanted = || request("k", Mode::Exclusive).with_ttl(ttl);
    take(&holder, wanted())
        .await
        .release()
        .await
        .expect("the server runs");
    // Neither the client nor its driver can send anything.
    block_thread(pause);
    let guard = take(&holder, wanted()).await;
    near.freeze();
    assert!(guard.is_held(), "a member that stops ends no hold at once");
    let next = waiter.acquire(wanted().with_wait(Wait::within(4 * ttl)));
    let next = next
        .await
        .expect("a majority runs")
        .expect("the session ends");
    lock_testkit::assert_excluded!(!guard.is_held(), "two have it");
    near.thaw();
    next.release().await.expect("the servers run");
}

/// Runs `test` on a runtime with a single thread, which can be blocked as a whole.
fn alone(test: impl AsyncFn() + Copy + Send + 'static) {
    steady(async move || {
        let alone = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(test());
        });
        if let Err(failed) = alone.await {
            std::panic::resume_unwind(failed.into_panic());
        }
    });
}

#[test]
fn a_hold_after_a_pause_ends_in_time() {
    alone(async || ends_in_time(Duration::from_secs(5), Duration::from_millis(1_900)).await);
}

#[test]
fn a_short_hold_after_a_pause_ends_in_time() {
    alone(async || ends_in_time(Duration::from_secs(4), Duration::from_millis(1_500)).await);
}
