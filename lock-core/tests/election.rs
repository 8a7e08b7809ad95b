//! The election of a leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::Released;
use lock_core::{
    Capabilities, DistributedLock, DistributedLockExt, Election, ErrorKind, HandOff, KeyInfo,
    LockGuard, LockKey, LockRequest, LossReason, MemoryLock, Result,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(20);

fn candidate(store: &MemoryLock) -> Election {
    let locks: Arc<dyn DistributedLock> = Arc::new(store.new_client());
    let election = Election::new(locks, "billing").expect("a name");
    election.with_ttl(SECOND)
}

fn key() -> lock_core::LockKey {
    lock_core::LockKey::new("billing").expect("a key")
}

/// Sets a flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn terms_follow_each_other_with_growing_numbers() {
    let store = MemoryLock::new();
    let (first, second) = (candidate(&store), candidate(&store));
    let term = first.campaign().await.unwrap();
    assert!(term.is_held());
    assert!(second.campaign_within(SECOND).await.unwrap().is_none());
    let number = term.number();
    let (next, resigned) = tokio::join!(second.campaign(), term.resign());
    assert_eq!(resigned.unwrap(), Released::Released);
    let next = next.unwrap();
    assert!(next.number() > number);
    store.evict(&key());
    assert_eq!(next.ended().await, LossReason::Removed);
    assert!(!next.is_held());
}

#[tokio::test(start_paused = true)]
async fn observers_see_each_term_once_with_its_number() {
    let store = MemoryLock::new();
    let identified = candidate(&store).identity("a").expect("a name");
    let mut leaders = candidate(&store).observe();
    assert!(timeout(SECOND, leaders.next()).await.is_err(), "no leader");
    let term = identified.campaign().await.unwrap();
    let leader = leaders.next().await.unwrap().unwrap();
    assert_eq!(leader.number, term.number());
    assert_eq!(leader.identity.as_deref(), Some("a"));
    assert!(leader.since.is_some());
    assert!(
        timeout(SECOND, leaders.next()).await.is_err(),
        "it leads on"
    );
    // A later observer begins with the present leader.
    let present = identified.observe().next().await.unwrap().unwrap();
    assert_eq!(present, leader);
    term.resign().await.unwrap();
    let term = candidate(&store).campaign().await.unwrap();
    let asked = tokio::time::Instant::now();
    let next = leaders.next().await.unwrap().unwrap();
    assert!(asked.elapsed() <= Duration::from_millis(250));
    assert_eq!(next.number, term.number());
    let process = format!(":{}", std::process::id());
    assert!(next.identity.is_some_and(|name| name.ends_with(&process)));
}

#[tokio::test(start_paused = true)]
async fn terms_of_one_process_have_grants_of_their_own() {
    let store = MemoryLock::new();
    let budget = Duration::from_secs(60);
    let client: Arc<dyn DistributedLock> = Arc::new(HandOff::new(Arc::new(store.clone()), budget));
    let election = Election::new(client, "billing").expect("a name");
    let mut leaders = candidate(&store).observe();
    let mut term = election.campaign().await.unwrap();
    for _ in 0..3 {
        let (next, resigned) = tokio::join!(election.campaign(), term.resign());
        resigned.unwrap();
        term = next.unwrap();
        let seen = timeout(LIMIT, leaders.next()).await;
        let leader = seen.expect("the hold was handed on").unwrap().unwrap();
        assert_eq!(leader.number, term.number(), "the hold was handed on");
    }
}

/// A client that does not answer, or cannot tell who leads.
#[derive(Debug)]
struct Blind(MemoryLock, AtomicUsize);

#[async_trait]
impl DistributedLock for Blind {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        self.0.acquire(request).await
    }

    async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        match self.1.fetch_add(1, Ordering::SeqCst) {
            0..3 => Err(lock_core::Error::new(ErrorKind::Unavailable, "no answer")),
            3..5 => self.0.inspect_key(key).await,
            _ => Err(lock_core::Error::new(ErrorKind::Unsupported, "blind")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn observers_outlast_an_outage_and_end_with_an_error() {
    let store = MemoryLock::new();
    let term = candidate(&store).campaign().await.unwrap();
    let blind = Arc::new(Blind(store.new_client(), AtomicUsize::new(0)));
    let mut leaders = Election::new(blind, "billing").unwrap().observe();
    let leader = leaders.next().await.unwrap().unwrap();
    assert_eq!(leader.number, term.number());
    let error = leaders.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(leaders.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_work_is_done_resigns() {
    let store = MemoryLock::new();
    let election = candidate(&store);
    let done = election.lead(async |term: lock_core::HoldWatch| term.is_held());
    assert!(done.await.unwrap());
    assert!(store.try_lock("billing").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_panics_or_is_cancelled_resigns() {
    let store = MemoryLock::new();
    let election = candidate(&store);
    let mut panicking = JoinSet::new();
    panicking.spawn(async move {
        let leading = election.lead(|_| async { panic!("in the work") });
        leading.await.map(|(): ()| ())
    });
    assert!(panicking.join_next().await.unwrap().unwrap_err().is_panic());
    let guard = timeout(LIMIT, store.lock("billing"))
        .await
        .unwrap()
        .unwrap();
    drop(guard);
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let election = candidate(&store);
    let leading = election.lead(move |_| {
        let flag = Dropped(Arc::clone(&flag));
        async move {
            let _flag = flag;
            std::future::pending::<()>().await;
        }
    });
    assert!(timeout(SECOND, leading).await.is_err());
    assert!(dropped.load(Ordering::SeqCst));
    let guard = timeout(LIMIT, store.lock("billing")).await.unwrap();
    drop(guard.unwrap());
}

/// The work of a lost term is dropped, and the candidate leads again later.
#[tokio::test]
async fn a_leader_that_lost_its_term_leads_again() {
    let store = MemoryLock::new();
    let election = candidate(&store);
    let (begun, mut terms) = mpsc::unbounded_channel();
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let mut candidates = JoinSet::new();
    candidates.spawn(async move {
        let leading = election.lead(move |term| {
            let count = Arc::clone(&count);
            let begun = begun.clone();
            async move {
                let end = CountDrop(count);
                begun.send(term.token()).expect("the test listens");
                std::future::pending::<()>().await;
                drop(end);
            }
        });
        leading.await
    });
    let mut last = None;
    for round in 0..3 {
        let token = timeout(LIMIT, terms.recv()).await.unwrap();
        assert!(token > last);
        last = token;
        assert_eq!(dropped.load(Ordering::SeqCst), round);
        assert!(store.evict(&key()));
    }
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_ends_the_candidacy() {
    let store = MemoryLock::new();
    let locks: Arc<dyn DistributedLock> = Arc::new(store.new_client());
    let election = Election::new(Arc::clone(&locks), "billing").unwrap();
    locks.shutdown(SECOND).await.unwrap();
    let error = election.lead(async |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(
        Election::new(locks, "").unwrap_err().kind(),
        ErrorKind::InvalidKey
    );
}
