//! The nodes of locks that nobody uses any more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Clock, Deadlines, KeeperRuntime, Moment, Mutex};

use crate::paths::Paths;
use crate::session::requests::Session;

/// The time that a lock's node stays after the last claim of this client has gone.
const UNUSED: Duration = Duration::from_secs(1);

/// The time to sleep between rounds.
const ROUND: Duration = Duration::from_millis(250);

/// The number of nodes that are removed at once.
const BATCH: usize = 64;

/// The time that a batch may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The number of times that a node is tried again that cannot be removed, each time after twice as long.
const ATTEMPTS: u32 = 5;

/// Removes the nodes of locks that have become empty, and the empty levels above them.
///
/// They are containers, which the server removes by itself, but once a minute, and not those of a
/// server that was restarted meanwhile. Nodes that somebody else has made stay.
#[derive(Debug)]
pub(crate) struct LockNodeSweeper {
    paths: Paths,
    deadlines: Deadlines,
    keeper_runtime: KeeperRuntime,
    unused: Mutex<Unused>,
}

#[derive(Debug, Default)]
struct Unused {
    nodes: HashMap<Arc<str>, Due>,
    /// The session that was used last, as long as it is needed.
    session: Option<Arc<Session>>,
    is_looked_after: bool,
}

/// When a node is tried, and how often it was before.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Moment,
    retry: u32,
}

/// Nodes that are due, each with how often it was tried.
type Batch = Vec<(Arc<str>, u32)>;

impl LockNodeSweeper {
    pub(crate) fn new(paths: Paths, deadlines: Deadlines, keeper_runtime: KeeperRuntime) -> Self {
        Self {
            paths,
            deadlines,
            keeper_runtime,
            unused: Mutex::default(),
        }
    }

    /// Says that a claim has gone from the queue of `lock`, or may never come.
    pub(crate) fn left(self: &Arc<Self>, lock: Arc<str>, session: Arc<Session>) {
        let mut unused = self.unused.lock();
        unused.enter(lock, 0);
        unused.session = Some(session);
        if std::mem::replace(&mut unused.is_looked_after, true) {
            return;
        }
        drop(unused);
        // Made before the task, which may be dropped before its first turn.
        let looking_after = look_after(Leaving(Some(Arc::clone(self))));
        if let Err(error) = self.keeper_runtime.spawn(looking_after) {
            tracing::debug!(%error, "empty nodes are left to the server");
        }
    }

    /// Says that a claim stands in the queue of `lock`, which is [left](Self::left) when it goes.
    pub(crate) fn joined(&self, lock: &str) {
        self.unused.lock().nodes.remove(lock);
    }

    /// Takes out what was left long enough ago; `None` when nothing is waited for, or when there is no
    /// session for it any more: then it waits for the next one.
    fn due(&self) -> Option<(Batch, Arc<Session>)> {
        let now = Clock::Boot.now();
        let mut unused = self.unused.lock();
        let is_empty = unused.nodes.is_empty();
        // One that is retired ends only when nobody has it.
        unused
            .session
            .take_if(|session| is_empty || !session.is_open());
        let Some(session) = unused.session.clone() else {
            unused.is_looked_after = false;
            return None;
        };
        let due = unused.nodes.extract_if(|_, due| due.at <= now);
        let due = due.map(|(lock, due)| (lock, due.retry)).collect();
        Some((due, session))
    }

    /// Removes the node of a lock, and the levels above it as far as they have become empty.
    async fn remove(&self, lock: &Arc<str>, retry: u32, session: &Session) {
        let mut next = Some(&**lock);
        while let Some(node) = next {
            match session.delete_if_empty(node).await {
                Ok(true) => next = self.paths.above(node),
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!(node, %error, "an empty node is not removed yet");
                    if retry < ATTEMPTS {
                        self.unused.lock().enter(Arc::clone(lock), retry + 1);
                    }
                    return;
                }
            }
        }
    }
}

impl Unused {
    fn enter(&mut self, lock: Arc<str>, retry: u32) {
        let due = Due {
            at: Clock::Boot.now().plus(UNUSED * 2_u32.pow(retry)),
            retry,
        };
        self.nodes.insert(lock, due);
    }
}

async fn look_after(mut leaving: Leaving) {
    while let Some(lock_nodes) = &leaving.0
        && let Some((due, session)) = lock_nodes.due()
    {
        for batch in due.chunks(BATCH) {
            let removing = batch
                .iter()
                .map(|(lock, retry)| lock_nodes.remove(lock, *retry, &session));
            let _ended = lock_nodes
                .deadlines
                .timeout(LIMIT, join_all(removing))
                .await;
        }
        drop(session);
        Clock::Boot.sleep_until(Clock::Boot.now().plus(ROUND)).await;
    }
    leaving.0 = None;
}

/// Says that the task is gone when it is dropped together with its runtime.
struct Leaving(Option<Arc<LockNodeSweeper>>);

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(lock_nodes) = &self.0 {
            lock_nodes.unused.lock().is_looked_after = false;
        }
    }
}
