//! Changes of the mode whose answers are lost or late.

use lock_core::{DistributedLock, ErrorKind, LockGuard, LockRequest};
use lock_etcd::EtcdLock;
use lock_testkit::{assert_excluded, eventually, steady};
use tokio::time::{sleep, timeout};

use crate::bed::{BRIEFLY, Bed};
use crate::{PROMPT, TTL};

async fn upgradeable(locks: &EtcdLock) -> LockGuard {
    let request = LockRequest::upgradeable("k").expect("a key").with_ttl(TTL);
    let taken = locks.acquire(request).await;
    taken.expect("the server runs").expect("free")
}

/// The servers carry out the change, and the client asks again. A second change would give another
/// token, while readers of the first answer may be under way.
#[test]
fn a_change_of_the_mode_whose_answer_is_lost_is_made_once() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let guard = upgradeable(&locks).await;
        bed.command().to_client().delay(BRIEFLY);
        let mut upgrading = Box::pin(guard.try_upgrade());
        let stored = || async { bed.value("k/").await.starts_with("converted:") };
        tokio::select! {
            _ = &mut upgrading => panic!("it has an answer"),
            () = eventually(PROMPT, "the mode is changed", stored) => bed.command().lose(),
        }
        bed.command().reset();
        bed.command().pass();
        let guard = timeout(PROMPT, upgrading).await.expect("an answer");
        let guard = guard.expect("it is granted");
        let value = bed.value("k/").await;
        assert!(value.starts_with(&format!("converted:{}:", guard.token())));
        let version = bed
            .cluster
            .control(&["get", "--prefix", "k/", "-w", "json"]);
        assert!(version.contains("\"version\":2"), "{version}");
        guard.release().await.expect("the server runs");
        bed.has_keys(0).await;
    });
}

/// The reader comes between the two requests of the upgrade: the answer to the first is late.
#[test]
fn a_reader_that_comes_during_an_upgrade_is_not_overlooked() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let guard = upgradeable(&locks).await;
        bed.command().to_client().delay(BRIEFLY);
        let read = async {
            sleep(BRIEFLY / 2).await;
            let request = LockRequest::shared("k").unwrap().with_ttl(TTL);
            let taken = other.acquire(request.without_waiting()).await;
            taken.expect("the server runs").expect("readers may enter")
        };
        let (upgraded, reader) = tokio::join!(guard.try_upgrade(), read);
        bed.command().pass();
        assert_excluded!(upgraded.is_err(), "a writer beside a reader");
        let (guard, error) = upgraded.expect_err("a reader holds it");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
        assert!(guard.is_held() && reader.is_held());
    });
}
