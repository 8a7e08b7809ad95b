//! Releases with lost answers, and clean-ups during an outage of the network.

use lock_core::backend::Released;
use lock_core::{DistributedLock, Mode};

use crate::bed::{Bed, modes, request, take};
use lock_testkit::steady;

#[test]
fn a_release_whose_answer_is_lost_has_released() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        for mode in modes() {
            for round in 0..10 {
                let guard = take(&locks, request("k", mode)).await;
                bed.proxy.all().lose_next_reply_and_cut();
                let released = guard.release().await;
                assert!(released.is_ok(), "{mode:?} {round}: {released:?}");
                assert!(bed.claims("k").await.is_empty(), "{mode:?} {round}");
            }
        }
    });
}

#[test]
fn a_release_that_is_lost_on_its_way_is_sent_again() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        for mode in modes() {
            let guard = take(&locks, request("k", mode)).await;
            bed.proxy.all().to_server().cut_after(0);
            assert_eq!(guard.release().await.unwrap(), Released::Released);
            assert!(bed.claims("k").await.is_empty(), "{mode:?}");
            bed.proxy.all().pass();
        }
    });
}

#[test]
fn what_is_dropped_while_the_network_is_gone_is_removed_when_it_is_back() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        let guard = take(&locks, request("held", Mode::Exclusive)).await;
        let other = bed.direct().await;
        let blocking = take(&other, request("waited", Mode::Exclusive)).await;
        {
            let mut waiting = Box::pin(locks.acquire(request("waited", Mode::Exclusive)));
            tokio::select! {
                early = &mut waiting => panic!("{early:?}"),
                () = bed.has("waited", 2) => {}
            }
            bed.proxy.all().cut();
            bed.proxy.refuse();
        }
        drop(guard);
        bed.proxy.accept();
        bed.has("held", 0).await;
        bed.has("waited", 1).await;
        blocking.release().await.unwrap();
    });
}
