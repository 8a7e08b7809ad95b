//! Jobs that run once at each planned time.

use std::time::{Duration, SystemTime};

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockRequest, MemoryLock, Wait};
use tokio::time::{Instant, sleep};

const WITHIN: Duration = Duration::from_secs(60);

#[expect(
    clippy::disallowed_methods,
    reason = "schedules are planned by the wall clock"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

fn request(fire_time: SystemTime) -> LockRequest {
    LockRequest::once("report", fire_time, WITHIN).expect("in time")
}

#[test]
fn the_key_names_the_job_and_its_planned_time() {
    let planned = SystemTime::UNIX_EPOCH + Duration::from_secs(1_801_360_800);
    let far = Duration::from_secs(1 << 40);
    let key = |planned| {
        let request = LockRequest::once("report", planned, far).expect("in time");
        request.key.to_string()
    };
    assert_eq!(key(planned), "report@2027-01-31T02:00:00Z");
    let finer = planned + Duration::from_millis(250);
    assert_eq!(key(finer), "report@2027-01-31T02:00:00.250000000Z");
    assert_eq!(request(now()).wait(), Wait::No);
}

/// An instance that comes as late as it may finds the key closed, even if its clock is behind by
/// almost `within`.
#[test]
fn the_key_stays_closed_until_twice_within_after_the_planned_time() {
    for (ago, ahead, expected) in [(0, 0, 120), (50, 0, 70), (0, 50, 170)] {
        let planned = now() - Duration::from_secs(ago) + Duration::from_secs(ahead);
        let least = Duration::from_secs(expected);
        let minimum = request(planned).min_hold();
        // It is rounded up to a quarter of `within`, and some time may pass before it is read.
        let passed = Duration::from_secs(5);
        let range = least - passed..=least + WITHIN / 4;
        assert!(range.contains(&minimum), "{minimum:?} for {least:?}");
    }
}

#[test]
fn an_instance_that_comes_too_late_or_too_early_is_told_so() {
    let now = now();
    let other = Duration::from_secs(300);
    for (planned, side) in [(now - other, "ago"), (now + other, "ahead")] {
        let error = LockRequest::once("report", planned, WITHIN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let says = format!(" {side}, further than within (1 min)");
        assert!(error.to_string().contains(&says), "{error}");
    }
    let long_ago = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let error = LockRequest::once("report", long_ago, Duration::MAX).unwrap_err();
    assert!(error.to_string().contains("before 1970"), "{error}");
    let long = "x".repeat(250);
    let error = LockRequest::once(&long, now, WITHIN).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidKey);
}

#[tokio::test(start_paused = true)]
async fn a_short_job_runs_once_on_many_instances() {
    let locks = MemoryLock::new();
    let planned = now();
    let mut runs = 0;
    for _ in 0..8 {
        let instance = locks.new_client();
        let ran = instance.once("report", planned, WITHIN, async |held| held.is_held());
        runs += u32::from(ran.await.unwrap() == Some(true));
        sleep(WITHIN / 10).await;
    }
    assert_eq!(runs, 1);
    let next = planned + Duration::from_secs(1);
    let ran = locks.once("report", next, WITHIN, async |_| ()).await;
    assert_eq!(ran.unwrap(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn a_job_longer_than_its_window_keeps_its_key() {
    let locks = MemoryLock::new();
    let planned = now();
    let began = Instant::now();
    let job = locks.once("report", planned, WITHIN, async |_| sleep(WITHIN * 5).await);
    let other = async {
        sleep(WITHIN * 4).await;
        let key = request(planned).key;
        let key = LockRequest::exclusive(key.as_str()).unwrap();
        assert!(
            locks
                .acquire(key.clone().without_waiting())
                .await
                .unwrap()
                .is_none()
        );
        drop(locks.acquire(key).await.unwrap().unwrap());
        assert!(began.elapsed() < WITHIN * 6);
    };
    let (ran, ()) = tokio::join!(job, other);
    assert_eq!(ran.unwrap(), Some(()));
}
