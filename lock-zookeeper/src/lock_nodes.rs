//! Deletes the nodes of locks that are not in use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::{Attendance, Clock, Deadlines, KeeperRuntime, Moment, Mutex, OnDemand};

use crate::paths::Paths;
use crate::session::requests::Session;

/// The time that a lock's node stays after the last claim of this client.
const UNUSED: Duration = Duration::from_secs(1);

/// The time between two rounds of the task.
const ROUND: Duration = Duration::from_millis(250);

/// The number of nodes that are deleted at once.
const BATCH: usize = 64;

/// The time that a batch may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The number of times that a failed deletion is repeated. Each pause is twice as long as the last.
const ATTEMPTS: u32 = 5;

/// The sweeper of empty nodes: it deletes the nodes of locks, and the empty levels above them.
///
/// The nodes are containers. A server also deletes empty containers, but only once a minute, and
/// not after a restart. The nodes of other clients stay.
pub(crate) struct LockNodeSweeper {
    paths: Paths,
    deadlines: Deadlines,
    keeper_runtime: KeeperRuntime,
    unused: Mutex<Unused>,
    attended: OnDemand,
}

#[derive(Default)]
struct Unused {
    nodes: HashMap<Arc<str>, NextAttempt>,
    /// The session that was used last, kept as long as nodes have to be deleted.
    session: Option<Arc<Session>>,
}

/// The time of the next attempt for a node, and the number of attempts before.
struct NextAttempt {
    at: Moment,
    retry: u32,
}

/// The nodes that are due, with the number of attempts for each.
type Batch = Vec<(Arc<str>, u32)>;

impl LockNodeSweeper {
    pub(crate) fn new(paths: Paths, deadlines: Deadlines, keeper_runtime: KeeperRuntime) -> Self {
        Self {
            paths,
            deadlines,
            keeper_runtime,
            unused: Mutex::default(),
            attended: OnDemand::default(),
        }
    }

    /// Notes that a claim has left the queue of `lock`, or may never enter it.
    pub(crate) fn left(self: &Arc<Self>, lock: Arc<str>, session: Arc<Session>) {
        let mut unused = self.unused.lock();
        unused.enter(lock, 0);
        unused.session = Some(session);
        let Some(attendance) = self.attended.begin() else {
            return;
        };
        drop(unused);
        let sweeping = sweep(Arc::clone(self), attendance);
        if let Err(error) = self.keeper_runtime.spawn(sweeping) {
            tracing::debug!(%error, "zookeeper: sweeping empty lock nodes cannot start, leaving them to the server");
        }
    }

    /// Notes that a claim is in the queue of `lock`. Its end calls [left](Self::left).
    pub(crate) fn joined(&self, lock: &str) {
        self.unused.lock().nodes.remove(lock);
    }

    /// Takes out the nodes that are due.
    ///
    /// Returns `None` at the end of the task: no node is left, or the session is not open. In the
    /// second case the nodes wait for the next session.
    fn due(&self) -> Option<(Batch, Arc<Session>)> {
        let now = Clock::Boot.now();
        let mut unused = self.unused.lock();
        let is_empty = unused.nodes.is_empty();
        // Drop a retired session, so that it can close.
        unused
            .session
            .take_if(|session| is_empty || !session.is_open());
        let Some(session) = unused.session.clone() else {
            self.attended.end();
            return None;
        };
        let due = unused.nodes.extract_if(|_, next| next.at <= now);
        let due = due.map(|(lock, next)| (lock, next.retry)).collect();
        Some((due, session))
    }

    /// Deletes the node of a lock, and the empty levels above it.
    async fn remove(&self, lock: &Arc<str>, retry: u32, session: &Session) {
        let mut next = Some(&**lock);
        while let Some(node) = next {
            match session.delete_if_empty(node).await {
                Ok(true) => next = self.paths.parent(node),
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!(node, %error, "zookeeper: deleting an empty node failed, trying again later");
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
        let at = Clock::Boot.now().plus(UNUSED * 2_u32.pow(retry));
        self.nodes.insert(lock, NextAttempt { at, retry });
    }
}

async fn sweep(lock_nodes: Arc<LockNodeSweeper>, _attendance: Attendance) {
    while let Some((due, session)) = lock_nodes.due() {
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
}
