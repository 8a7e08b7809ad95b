//! Functions under `#[locked]`, on the memory store.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polylock::{
    Busy, DistributedLock, DistributedLockExt, ErrorKind, FencingToken, HoldWatch, MemoryLock,
    locked,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

struct Order {
    id: u64,
    lines: (u8, Vec<u8>),
}

const ORDER: Order = Order {
    id: 42,
    lines: (7, Vec::new()),
};

async fn is_held(locks: &dyn DistributedLock, key: &str) -> bool {
    locks.try_lock(key).await.expect("memory").is_none()
}

#[locked(key = "order:{order.id}/{order.lines.0:03}/{{}}", wait = "0s")]
async fn place(locks: &dyn DistributedLock, order: &Order) -> Result<bool, BoxError> {
    assert_eq!(order.lines.1.len(), 0);
    Ok(is_held(locks, "order:42/007/{}").await)
}

#[tokio::test]
async fn the_key_has_the_values_of_the_arguments() {
    let locks = MemoryLock::new();
    assert!(place(&locks, &ORDER).await.expect("free"), "another key");
    assert!(!is_held(&locks, "order:42/007/{}").await, "not released");
}

#[tokio::test]
async fn a_held_lock_is_the_error_busy() {
    let locks = MemoryLock::new();
    let guard = locks.lock("order:42/007/{}").await.expect("free");
    let error = place(&locks, &ORDER).await.expect_err("held");
    let busy = error.downcast_ref::<Busy>().expect("busy, not broken");
    assert_eq!(busy.key(), "order:42/007/{}");
    drop(guard);
    place(&locks, &ORDER).await.expect("free again");
}

#[locked(key = "report", wait = "0s", on_busy = "skip")]
async fn report(locks: &dyn DistributedLock) -> Result<Option<u32>, polylock::Error> {
    Ok(Some(1))
}

#[locked(key = "report", wait = "0s", on_busy = "skip")]
async fn report_to(
    locks: &dyn DistributedLock,
    has_run: &AtomicBool,
) -> Result<(), polylock::Error> {
    has_run.store(true, Ordering::Relaxed);
    Ok(())
}

#[tokio::test]
async fn a_held_lock_skips_the_work_if_wanted() {
    let (locks, has_run) = (MemoryLock::new(), AtomicBool::new(false));
    let guard = locks.lock("report").await.expect("free");
    assert_eq!(report(&locks).await.expect("memory"), None);
    report_to(&locks, &has_run).await.expect("memory");
    assert!(!has_run.load(Ordering::Relaxed));
    drop(guard);
    assert_eq!(report(&locks).await.expect("memory"), Some(1));
    report_to(&locks, &has_run).await.expect("memory");
    assert!(has_run.load(Ordering::Relaxed));
}

struct Stock {
    locks: Arc<dyn DistributedLock>,
    shop: String,
}

impl Stock {
    #[locked(key = "{self.shop}/{item}", locks = self.locks, ttl = "5s")]
    async fn sell<T: Into<u64> + Send>(
        &self,
        item: &str,
        count: T,
        held: HoldWatch,
    ) -> Result<(u64, FencingToken), BoxError> {
        assert!(held.is_held());
        Ok((count.into(), held.token()))
    }
}

#[tokio::test]
async fn a_method_uses_the_locks_of_its_object_and_is_told_its_token() {
    let stock = Stock {
        locks: Arc::new(MemoryLock::new()),
        shop: "north".to_owned(),
    };
    let (count, first) = stock.sell("tea", 3_u32).await.expect("free");
    let (_, second) = stock.sell("tea", 3_u32).await.expect("free");
    assert_eq!(count, 3);
    assert!(second > first);
    let error = Stock {
        shop: "x".repeat(255),
        ..stock
    }
    .sell("tea", 1_u32)
    .await;
    let error = error.expect_err("257 bytes").downcast::<polylock::Error>();
    assert_eq!(error.expect("of the lock").kind(), ErrorKind::InvalidKey);
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[locked(key = "long", at_most = "1s")]
async fn work_for_ever(locks: &dyn DistributedLock, dropped: SetOnDrop) -> Result<(), BoxError> {
    let _dropped = dropped;
    pending().await
}

#[tokio::test(start_paused = true)]
async fn a_loss_drops_the_body() {
    let (locks, dropped) = (MemoryLock::new(), Arc::<AtomicBool>::default());
    let error = work_for_ever(&locks, SetOnDrop(Arc::clone(&dropped))).await;
    let error = error.expect_err("too long").downcast::<polylock::Error>();
    assert_eq!(error.expect("of the lock").kind(), ErrorKind::Lost);
    assert!(dropped.load(Ordering::Relaxed));
    assert!(!is_held(&locks, "long").await);
}

#[locked(key = "tick/{tick}", at_least = "60s", wait = "0s", on_busy = "skip")]
async fn tick(locks: &dyn DistributedLock, tick: u32) -> Result<Option<()>, BoxError> {
    Ok(Some(()))
}

#[tokio::test(start_paused = true)]
async fn a_short_body_runs_once_within_its_minimum() {
    let locks = MemoryLock::new();
    assert!(tick(&locks, 1).await.expect("it answers").is_some());
    assert!(tick(&locks, 1).await.expect("it answers").is_none());
    assert!(tick(&locks, 2).await.expect("it answers").is_some());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(tick(&locks, 1).await.expect("it answers").is_some());
}

#[locked(key = "pair/{left}/{right}")]
async fn joined(locks: &dyn DistributedLock, (left, right): (u8, u8)) -> Result<u32, BoxError> {
    assert!(is_held(locks, "pair/1/2").await);
    Ok(format!("{left}{right}!").parse()?)
}

#[tokio::test]
async fn the_body_may_return_early_with_an_error_of_its_own() {
    let locks = MemoryLock::new();
    let error = joined(&locks, (1, 2)).await.expect_err("no number");
    assert!(error.is::<std::num::ParseIntError>(), "{error}");
    assert!(!is_held(&locks, "pair/1/2").await, "not released");
}

#[test]
fn wrong_uses_are_told_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
