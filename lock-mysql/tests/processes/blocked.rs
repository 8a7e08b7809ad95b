//! Applications that block all workers of their runtime, or drop it.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{KeeperMode, Mode};
use lock_mysql::{MySqlConfig, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{block_thread, block_workers, eventually};
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::{BOTH, connect, take};

const TTL: Duration = Duration::from_millis(1500);

#[test]
fn a_hold_is_renewed_while_every_worker_is_blocked() {
    const WORKERS: usize = 2;
    for hold in BOTH {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(WORKERS).enable_all().build();
        let runtime = runtime.expect("a runtime to block");
        let guard = runtime.block_on(async {
            let locks = connect(server.url(), hold).await;
            take(&locks, "k", Mode::Exclusive, TTL).await
        });
        block_workers(&runtime, WORKERS, TTL * 3);
        assert!(guard.is_held(), "{hold:?}: nobody renewed it");
        let released = runtime.block_on(guard.release());
        assert_eq!(released.expect("the server runs"), Released::Released);
    }
}

#[test]
fn a_runtime_that_is_dropped_keeps_what_is_held_and_releases_what_is_not() {
    for hold in BOTH {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let runtime = || Builder::new_multi_thread().enable_all().build();
        let first = runtime().expect("a runtime");
        let (kept, dropped, locks) = first.block_on(async {
            let locks = connect(server.url(), hold).await;
            let kept = take(&locks, "kept", Mode::Exclusive, TTL).await;
            let long = Duration::from_secs(60);
            let dropped = take(&locks, "dropped", Mode::Exclusive, long).await;
            (kept, dropped, locks)
        });
        drop(first);
        drop(dropped);
        runtime().expect("a runtime").block_on(async {
            let other = connect(server.url(), hold).await;
            let free = || async {
                use lock_core::DistributedLockExt;
                let next = other.try_lock("dropped").await;
                next.expect("the server runs").is_some()
            };
            eventually(Duration::from_secs(5), "it is released", free).await;
            tokio::time::sleep(TTL * 2).await;
            assert!(kept.is_held(), "{hold:?}");
            let next = take(&locks, "next", Mode::Exclusive, TTL).await;
            next.release().await.expect("the server runs");
            let released = kept.release().await.expect("the server runs");
            assert_eq!(released, Released::Released);
        });
    }
}

#[test]
fn holds_that_the_caller_keeps_end_with_its_runtime() {
    for hold in BOTH {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let runtime = || Builder::new_current_thread().enable_all().build();
        let first = runtime().expect("a runtime");
        let guard = first.block_on(async {
            let config = MySqlConfig::new(server.url()).with_hold(hold);
            let config = config.with_keeper(KeeperMode::Caller);
            let locks = MySqlLock::connect(config).await.expect("it runs");
            let guard = take(&locks, "k", Mode::Exclusive, TTL).await;
            tokio::time::sleep(TTL * 2).await;
            assert!(guard.is_held(), "{hold:?}: not renewed");
            guard
        });
        drop(first);
        let begun = Instant::now();
        runtime().expect("a runtime").block_on(async {
            use lock_core::DistributedLockExt;
            let other = connect(server.url(), hold).await;
            let next = other.lock_within("k", TTL + Duration::from_secs(1)).await;
            assert!(next.expect("the server runs").is_some(), "{hold:?}");
        });
        assert!(begun.elapsed() < TTL + Duration::from_secs(1));
        block_thread(TTL.saturating_sub(begun.elapsed()));
        assert!(!guard.is_held());
    }
}
