//! Many tasks of one process that wait for one key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use polylock::{DistributedLock, LockRequest};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The key that all tasks want.
pub(crate) const KEY: &str = "crowded";

/// Duration of a shared hold, long enough for the holds of several readers to overlap.
const READING: Duration = Duration::from_millis(50);

/// The kind of lock that the waiters want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Shared,
    /// A permit of a key with one permit.
    Permit,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Permit => "permit",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        let all = [Self::Exclusive, Self::Shared, Self::Permit];
        let mut all = all.into_iter();
        all.find(|kind| kind.name() == name).expect("a kind")
    }

    pub(crate) fn request(self) -> LockRequest {
        let request = match self {
            Self::Exclusive => LockRequest::exclusive(KEY),
            Self::Shared => LockRequest::shared(KEY),
            Self::Permit => LockRequest::permit(KEY, 1),
        };
        request.expect("a key")
    }
}

/// The outcome of the waits.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    waiting: AtomicUsize,
    granted: AtomicUsize,
    lost: AtomicUsize,
    failed: AtomicUsize,
    inside: AtomicUsize,
    together: AtomicUsize,
    token: AtomicU64,
    backwards: AtomicUsize,
    first_error: std::sync::Mutex<Option<String>>,
}

/// The tasks of the waiters.
pub(crate) struct Crowd {
    outcome: Arc<Outcome>,
    tasks: JoinSet<()>,
}

impl Crowd {
    /// Starts `many` tasks that only wait for a wake-up.
    pub(crate) async fn of_notified(many: usize) -> Self {
        let outcome = Arc::new(Outcome::default());
        let notify = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        for _ in 0..many {
            let (notify, outcome) = (Arc::clone(&notify), Arc::clone(&outcome));
            tasks.spawn(async move {
                outcome.waiting.fetch_add(1, Ordering::Relaxed);
                notify.notified().await;
            });
        }
        let crowd = Self { outcome, tasks };
        crowd.all_wait().await;
        crowd
    }

    /// Starts `many` tasks that wait for the key; returns once all of them have begun to wait.
    pub(crate) async fn of_waiters(
        locks: &Arc<dyn DistributedLock>,
        kind: Kind,
        many: usize,
    ) -> Self {
        let outcome = Arc::new(Outcome::default());
        let mut tasks = JoinSet::new();
        for _ in 0..many {
            let (locks, outcome) = (Arc::clone(locks), Arc::clone(&outcome));
            tasks.spawn(async move { outcome.wait(&*locks, kind).await });
        }
        let crowd = Self { outcome, tasks };
        crowd.all_wait().await;
        crowd
    }

    async fn all_wait(&self) {
        while self.outcome.waiting.load(Ordering::Relaxed) < self.tasks.len() {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until each waiter has had its turn; returns the outcome.
    pub(crate) async fn finish(self, limit: Duration) -> Value {
        let ends = Instant::now() + limit;
        let mut tasks = self.tasks;
        let mut unfinished = tasks.len();
        while let Ok(Some(ended)) = tokio::time::timeout_at(ends, tasks.join_next()).await {
            unfinished -= usize::from(ended.is_ok());
        }
        let count = |of: &AtomicUsize| of.load(Ordering::SeqCst);
        let error = self.outcome.first_error.lock();
        json!({
            "granted": count(&self.outcome.granted),
            "lost": count(&self.outcome.lost),
            "failed": count(&self.outcome.failed),
            "together": count(&self.outcome.together),
            "backwards": count(&self.outcome.backwards),
            "unfinished": unfinished,
            "error": error.expect("nobody panics with it").clone(),
        })
    }
}

impl Outcome {
    async fn wait(&self, locks: &dyn DistributedLock, kind: Kind) {
        let mut acquisition = locks.acquire(kind.request());
        let mut began = false;
        let outcome = std::future::poll_fn(|context| {
            let poll = acquisition.as_mut().poll(context);
            if !std::mem::replace(&mut began, true) {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            match poll {
                Poll::Ready(outcome) => Poll::Ready(outcome),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        let guard = match outcome {
            Ok(Some(guard)) => guard,
            Ok(None) => return self.fail("a wait without an end has ended".into()),
            Err(error) => return self.fail(error.to_string()),
        };
        self.granted.fetch_add(1, Ordering::SeqCst);
        let inside = self.inside.fetch_add(1, Ordering::SeqCst);
        if kind == Kind::Shared {
            tokio::time::sleep(READING).await;
        } else {
            if inside > 0 && guard.is_held() {
                self.together.fetch_add(1, Ordering::SeqCst);
            }
            let token = guard.token().value();
            if self.token.swap(token, Ordering::SeqCst) >= token {
                self.backwards.fetch_add(1, Ordering::SeqCst);
            }
        }
        if !guard.is_held() {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        if let Err(error) = guard.release().await {
            self.fail(error.to_string());
        }
    }

    fn fail(&self, error: String) {
        self.failed.fetch_add(1, Ordering::SeqCst);
        let mut first = self.first_error.lock().expect("nobody panics with it");
        first.get_or_insert(error);
    }
}
