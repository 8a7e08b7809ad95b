//! Tests of the records that a recorder writes about real locks.

use std::time::Duration;

use lock_core::{DistributedLock, LockRequest, MemoryLock};
use lock_testkit::history::{History, Recorder, Rules, Verdict};

fn request(key: &str) -> LockRequest {
    let request = LockRequest::exclusive(key).expect("a key");
    request.with_ttl(Duration::from_secs(1))
}

async fn recorded(locks: &MemoryLock, work: impl AsyncFn(Recorder)) -> Verdict {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("worker.jsonl");
    let recorder = Recorder::create(file, "worker").expect("a new file");
    work(recorder).await;
    let history = History::read(directory.path()).expect("it was written");
    history.check(&Rules::new(&locks.capabilities()))
}

#[tokio::test]
async fn whoever_waits_for_a_holder_is_contended() {
    let locks = MemoryLock::new();
    let verdict = recorded(&locks, async |recorder| {
        let first = recorder
            .acquire(&locks, request("k"))
            .await
            .unwrap()
            .unwrap();
        let refused = recorder.acquire(&locks, request("k").without_waiting());
        assert!(refused.await.unwrap().is_none());
        let second = async {
            let second = recorder
                .acquire(&locks, request("k"))
                .await
                .unwrap()
                .unwrap();
            assert!(second.is_held());
        };
        let hold = async {
            assert!(first.hold_for(Duration::from_millis(30)).await);
            first.release().await.unwrap();
        };
        tokio::join!(hold, second);
    })
    .await;
    assert_eq!((verdict.grants, verdict.contended_grants), (2, 1));
    lock_testkit::assert_excluded!(verdict.violations.is_empty(), "{:?}", verdict.violations);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_written_down_once() {
    let locks = MemoryLock::new();
    let verdict = recorded(&locks, async |recorder| {
        let request = request("k").holding_at_most(Duration::from_millis(200));
        let hold = recorder.acquire(&locks, request).await.unwrap().unwrap();
        assert!(!hold.hold_for(Duration::from_secs(9)).await);
        assert!(!hold.is_held());
    })
    .await;
    assert_eq!((verdict.grants, verdict.losses), (1, 1));
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_no_waiter() {
    let locks = MemoryLock::new();
    let verdict = recorded(&locks, async |recorder| {
        let hold = recorder.acquire(&locks, request("k")).await.unwrap();
        let waiting = recorder.acquire(&locks, request("k"));
        let limit = Duration::from_millis(10);
        assert!(tokio::time::timeout(limit, waiting).await.is_err());
        drop(hold);
        // An hour later, which is beyond every limit for a waiter that is not served.
        recorder.note(
            Recorder::now() + 3_600_000_000_000,
            lock_testkit::history::Happening::End,
        );
    })
    .await;
    assert_eq!(verdict.grants, 1);
    lock_testkit::assert_excluded!(verdict.violations.is_empty(), "{:?}", verdict.violations);
}
