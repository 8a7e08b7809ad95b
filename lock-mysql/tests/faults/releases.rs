//! Releases whose answer does not arrive.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{ErrorKind, LockGuard, Mode, Released};
use lock_mysql::MySqlHold;
use lock_testkit::servers::SqlVendor;

use crate::LONG;
use crate::bed::{BOTH, Bed, modes, request, take};

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_answer_is_lost_with_its_connection_is_done() {
    for vendor in SqlVendor::available() {
        let bed = Bed::new(vendor);
        for hold in BOTH {
            let locks = bed.client(hold).await;
            for mode in modes(hold) {
                let request = request(&format!("{hold:?} {mode:?}"), mode, LONG);
                // Opens the connection that releases travel on.
                take(&locks, &request)
                    .await
                    .release()
                    .await
                    .expect("it runs");
                let guard = take(&locks, &request).await;
                bed.proxy.all().lose_next_reply_and_cut();
                match guard.release().await {
                    Ok(Released::Released | Released::AlreadyLost) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                }
                bed.empties().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_connection_goes_silent_is_done() {
    let bed = Bed::new(SqlVendor::MariaDb);
    for hold in BOTH {
        let locks = bed.client(hold).await;
        for mode in modes(hold) {
            let request = request(&format!("{hold:?} {mode:?}"), mode, LONG);
            take(&locks, &request)
                .await
                .release()
                .await
                .expect("it runs");
            let guard = take(&locks, &request).await;
            bed.proxy.all().lose_next_reply_and_go_silent();
            match guard.release().await {
                Ok(Released::Released | Released::AlreadyLost) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            bed.empties().await;
            // Whoever is next has the key at once.
            take(&locks, &request)
                .await
                .release()
                .await
                .expect("it runs");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_in_the_middle_of_a_heartbeat_is_one() {
    const TTL: Duration = Duration::from_secs(2);
    let bed = Bed::new(SqlVendor::MariaDb);
    let locks = bed.client(MySqlHold::Row).await;
    let mut guards = Vec::new();
    for number in 0..10 {
        let request = request(&format!("k{number}"), Mode::Exclusive, TTL);
        guards.push(take(&locks, &request).await);
    }
    bed.proxy
        .all()
        .to_client()
        .delay(Duration::from_millis(250));
    // Heartbeats are sent after a third of the ttl; none is answered yet.
    tokio::time::sleep(TTL / 3 + Duration::from_millis(100)).await;
    let releasing = guards.into_iter().map(LockGuard::release);
    for released in join_all(releasing).await {
        assert_eq!(released.expect("the server runs"), Released::Released);
    }
    bed.empties().await;
}
