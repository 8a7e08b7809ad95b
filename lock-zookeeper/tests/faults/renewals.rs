//! Renewals of several sessions, of which one gets no answers.

use std::time::Duration;

use lock_core::Mode;
use lock_testkit::steady;
use tokio::time::sleep;

use crate::bed::{Bed, request, take};

#[test]
fn a_silent_session_keeps_no_other_from_its_renewals() {
    steady(async || {
        // The longer ttl has a session of its own. Its holds are renewed for the first time a third
        // of it after they were taken: for eight seconds, every renewal of the short hold meets
        // one.
        let [short, long] = [2, 24].map(Duration::from_secs);
        let bed = Bed::new().await;
        let member = bed.server.member(0);
        member.configure(&["minSessionTimeout=1000"]);
        member.restart();
        let locks = bed.client().await;
        let renewed = take(&locks, request("short", Mode::Exclusive).with_ttl(short)).await;
        let known = bed.proxy.all().count();
        let mut silent = Vec::new();
        for number in 0..400 {
            let key = format!("long {number}");
            silent.push(take(&locks, request(&key, Mode::Exclusive).with_ttl(long)).await);
            sleep(long / 3 / 400).await;
        }
        assert_eq!(
            bed.proxy.all().count(),
            known + 1,
            "the longer ttl has one session"
        );
        for connection in known..known + 100 {
            bed.proxy.nth(connection).to_client().hold();
        }
        sleep(long / 2).await;
        assert!(renewed.is_held(), "its own session is answered");
        bed.proxy.all().pass();
        renewed.release().await.expect("the server runs");
    });
}
