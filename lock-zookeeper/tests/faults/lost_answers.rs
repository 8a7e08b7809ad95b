//! Takes with lost answers: the client finds their node, and no waiter waits for a dead claim.

use std::time::Duration;

use lock_core::DistributedLock;
use lock_core::backend::Released;
use lock_testkit::steady;
use tokio::time::timeout;

use crate::PROMPT;
use crate::bed::{Bed, modes, request, take};

const ROUNDS: usize = 20;

#[test]
fn a_take_whose_answer_is_lost_finds_its_node_again() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        for mode in modes() {
            // Creates the session and the node of the lock.
            take(&locks, request("k", mode))
                .await
                .release()
                .await
                .unwrap();
            for round in 0..ROUNDS {
                bed.proxy.all().lose_next_reply_and_cut();
                let guard = timeout(PROMPT, take(&locks, request("k", mode))).await;
                let guard =
                    guard.unwrap_or_else(|_| panic!("{mode:?} {round} waits for its ghost"));
                let claims = bed.claims("k").await;
                assert_eq!(claims.len(), 1, "{mode:?} {round}: {claims:?}");
                assert_eq!(guard.release().await.unwrap(), Released::Released);
                assert!(bed.claims("k").await.is_empty(), "{mode:?} {round}");
            }
        }
    });
}

#[test]
fn a_take_of_a_new_name_survives_a_cut_after_any_number_of_bytes() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        for bytes in (0..480).step_by(12) {
            let key = format!("new{bytes}");
            bed.proxy.all().to_server().cut_after(bytes);
            let guard = take(&locks, request(&key, modes()[0])).await;
            assert_eq!(bed.claims(&key).await.len(), 1, "cut after {bytes} bytes");
            bed.proxy.all().pass();
            drop(guard);
            bed.has(&key, 0).await;
        }
    });
}

#[test]
fn a_take_that_nobody_waits_for_any_more_leaves_nothing() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        for mode in modes() {
            take(&locks, request("k", mode))
                .await
                .release()
                .await
                .unwrap();
            for milliseconds in 0..ROUNDS {
                bed.proxy.all().delay(Duration::from_millis(5));
                let limit = Duration::from_millis(u64::try_from(milliseconds).unwrap());
                let taken = timeout(limit, locks.acquire(request("k", mode))).await;
                drop(taken);
                bed.proxy.all().pass();
                bed.has("k", 0).await;
            }
            bed.proxy.all().hold();
            let given_up = locks.acquire(request("k", mode).without_waiting()).await;
            given_up.expect_err("nothing is answered");
            bed.proxy.all().pass();
            bed.has("k", 0).await;
            take(&locks, request("k", mode))
                .await
                .release()
                .await
                .unwrap();
        }
    });
}
