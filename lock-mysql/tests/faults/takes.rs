//! Takes whose outcome the client does not learn, or not at once.

use std::time::Duration;

use lock_core::{DistributedLock, Released, Wait};
use lock_mysql::MySqlHold;
use lock_testkit::eventually;
use lock_testkit::servers::SqlVendor;

use crate::bed::{BOTH, Bed, modes, request, take};
use crate::{LONG, PROMPT};

/// The server's lease has to last as long as the client believes, which counts it from the request
/// that was answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_first_grant_went_unheard_lasts_as_long_as_the_client_believes() {
    const TTL: Duration = Duration::from_secs(9);
    for vendor in SqlVendor::available() {
        let bed = Bed::new(vendor);
        let locks = bed.client(MySqlHold::Lease).await;
        for mode in modes(MySqlHold::Lease) {
            let key = format!("{mode:?}");
            let request = request(&key, mode, TTL);
            take(&locks, &request)
                .await
                .release()
                .await
                .expect("the server runs");
            let before = bed.server.execute("SELECT MAX(token) FROM locks");
            bed.proxy.all().to_client().hold();
            let acquiring = locks.acquire(request.clone().with_wait(Wait::within(PROMPT)));
            let heard = async {
                let granted = || async { bed.expires_in(&key) > Duration::ZERO };
                eventually(PROMPT, "the server has granted it", granted).await;
                let less = TTL
                    .checked_sub(Duration::from_millis(1500))
                    .expect("longer");
                let late = || async { bed.expires_in(&key) < less };
                eventually(PROMPT, "some of the lease is over", late).await;
                bed.proxy.all().reset();
                bed.proxy.all().pass();
            };
            let (guard, ()) = tokio::join!(acquiring, heard);
            let guard = guard.expect("it can be reached").expect("it is ours");
            let (believed, left) = (guard.remaining(), bed.expires_in(&key));
            assert!(
                believed <= left,
                "{vendor:?}, {mode:?}: {believed:?} of {left:?}"
            );
            let after = bed.server.execute("SELECT MAX(token) FROM locks");
            assert!(after > before);
            assert_eq!(after, (guard.token().value() >> 14).to_string(), "{mode:?}");
            assert_eq!(guard.release().await.expect("it runs"), Released::Released);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_outlasts_a_connection_that_goes_silent_after_the_grant() {
    let bed = Bed::new(SqlVendor::MariaDb);
    for hold in BOTH {
        let locks = bed.client(hold).await;
        for mode in modes(hold) {
            let request = request(&format!("{hold:?} {mode:?}"), mode, LONG);
            take(&locks, &request)
                .await
                .release()
                .await
                .expect("the server runs");
            bed.proxy.all().lose_next_reply_and_go_silent();
            let guard = take(&locks, &request).await;
            assert_eq!(guard.release().await.expect("it runs"), Released::Released);
            bed.empties().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_on_a_connection_that_goes_silent_leaves_nothing() {
    let bed = Bed::new(SqlVendor::MariaDb);
    for hold in BOTH {
        let locks = bed.client(hold).await;
        for mode in modes(hold) {
            let request = request(&format!("{hold:?} {mode:?}"), mode, LONG);
            take(&locks, &request)
                .await
                .release()
                .await
                .expect("the server runs");
            bed.proxy.all().lose_next_reply_and_go_silent();
            let answer = locks.acquire(request).await;
            assert!(answer.is_err(), "{answer:?}");
            bed.empties().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_take_that_arrives_after_its_acquisition_was_given_up_leaves_nothing() {
    let bed = Bed::new(SqlVendor::MariaDb);
    let locks = bed.client(MySqlHold::Lease).await;
    for mode in modes(MySqlHold::Lease) {
        let request = request(&format!("{mode:?}"), mode, LONG);
        // Opens all connections that it takes, and shows which one takes travel on.
        let guard = take(&locks, &request).await;
        guard.release().await.expect("the server runs");
        let bytes = |number: &usize| bed.proxy.nth(*number).bytes();
        let before: Vec<usize> = (0..bed.proxy.all().count()).map(|n| bytes(&n)).collect();
        let guard = take(&locks, &request).await;
        let takes = (0..before.len()).max_by_key(|number| bytes(number) - before[*number]);
        let takes = bed.proxy.nth(takes.expect("there are connections"));
        guard.release().await.expect("the server runs");
        takes.clone().to_server().hold();
        let limit = Duration::from_millis(20);
        let given_up = tokio::time::timeout(limit, locks.acquire(request)).await;
        assert!(given_up.is_err(), "{mode:?}: it has arrived");
        // Soon enough, so that it is not ended on the server before.
        tokio::time::sleep(Duration::from_millis(80)).await;
        takes.pass();
        tokio::time::sleep(Duration::from_millis(100)).await;
        bed.empties().await;
    }
}
