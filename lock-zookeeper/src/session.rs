//! One session with the ensemble, and what is asked in it.
//!
//! The driver sends a request when it is called, before its future is polled, and a session's requests
//! are answered in order: so requests are sent one behind the other and then waited for together, and a
//! clean-up that is sent later cannot overtake what it cleans up. What has [gathered](Batches) goes before that.

use std::iter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Moment};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use zookeeper_client::{
    Acls, Client as ZooKeeper, CreateMode, Error as ZooKeeperError, MultiReadResult,
    MultiWriteError, OneshotWatcher, SessionId, Stat, StateWatcher,
};

use crate::batch::Batches;
use crate::confirmed::Confirmed;
use crate::watches::Watched;

/// What is in the containers that we make. A server does not tell which nodes are containers, and those
/// of others are not ours to remove.
const OURS: &[u8] = b"polylock";

/// A server that dies may not have told the leader of the last heartbeats: those of half a tick, which is
/// at most a quarter of the shortest session there is, and not more than this with any tick up to 4 s.
const UNTOLD_MAX: Duration = Duration::from_secs(2);

/// How many bytes of paths are in one session, before another one is opened: each may be watched, and the
/// driver loses a session whose watches do not fit into one request when they are set again on a new
/// connection (128 KiB; zookeeper-client 0.11).
const LOAD_MAX: usize = 96 * 1024;

/// What is checked of a node of which nothing is to be checked.
const ANY_VERSION: i32 = -1;

pub(crate) type Answer<T> = Result<T, ZooKeeperError>;

/// A session; dropping it closes it, and all that is in it with it.
#[derive(Debug)]
pub(crate) struct Session {
    client: ZooKeeper,
    batches: Arc<Batches>,
    confirmed: Confirmed,
    watches: UnboundedSender<Watched>,
    acls: Acls<'static>,
    used: Mutex<Moment>,
    retired: AtomicBool,
    /// The bytes of the paths of the claims in it.
    load: AtomicUsize,
}

/// A claim's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) czxid: i64,
}

impl Node {
    /// Its name in the line.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// What came of a claim: its node, and who stands in line with it.
pub(crate) struct Joined {
    pub(crate) node: Answer<Node>,
    pub(crate) children: Answer<Vec<String>>,
}

impl Session {
    /// A session on the runtime of the caller, whose watches are looked after by whoever has the other end of
    /// `watches`.
    pub(crate) fn new(
        client: ZooKeeper,
        has_user: bool,
        watches: UnboundedSender<Watched>,
    ) -> Self {
        let acls = if has_user {
            Acls::creator_all()
        } else {
            Acls::anyone_all()
        };
        Self {
            batches: Batches::new(client.clone(), acls, Handle::current()),
            client,
            confirmed: Confirmed::default(),
            watches,
            acls,
            used: Mutex::new(Clock::Boot.now()),
            retired: AtomicBool::new(false),
            load: AtomicUsize::new(0),
        }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.client.session_id()
    }

    pub(crate) fn states(&self) -> StateWatcher {
        self.client.state_watcher()
    }

    /// How long a hold with this lock delay counts, the delay included, from a request on that the leader
    /// has confirmed.
    pub(crate) fn ttl(&self, lock_delay: Duration) -> Duration {
        let timeout = self.client.session_timeout();
        // Without its delay it is a session's length by itself, since no ttl is shorter than that.
        let shortest = timeout.saturating_sub(lock_delay);
        timeout - UNTOLD_MAX.min(shortest / 4)
    }

    /// Whether it may be used for new claims.
    pub(crate) fn is_fit(&self) -> bool {
        self.load.load(Ordering::SeqCst) < LOAD_MAX && self.is_open()
    }

    /// Whether it goes on.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_retired() && !self.has_ended()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// Notes that a claim with a path of `size` bytes is in it.
    pub(crate) fn load(&self, size: usize) {
        self.load.fetch_add(size, Ordering::SeqCst);
    }

    pub(crate) fn unload(&self, size: usize) {
        self.load.fetch_sub(size, Ordering::SeqCst);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.client.state().is_terminated()
    }

    /// Has it closed as soon as nothing is in it any more.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// Notes that it is in use.
    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Clock::Boot.now();
    }

    /// Since when it has not been used.
    pub(crate) fn idle_since(&self) -> Moment {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a claim's node in the line of `lock`, and lists the line right behind it.
    pub(crate) async fn join(&self, lock: &Arc<str>, prefix: &str) -> Joined {
        let start = format!("{lock}/{prefix}");
        let sent = Clock::Boot.now();
        let joined = self.batches.join(lock, start).await;
        if joined.node.is_ok() {
            self.confirmed.note(sent);
        }
        joined
    }

    /// The line of `lock`, as it was when the last transaction of this session was answered, or later.
    pub(crate) async fn list(&self, lock: &str) -> Answer<Vec<String>> {
        self.client.list_children(lock).await
    }

    /// Looks at the line of `lock` through the leader: what was confirmed to anybody before is seen.
    pub(crate) async fn look(&self, lock: &str) -> Answer<Vec<String>> {
        self.batches.flush();
        let syncing = self.client.sync("/");
        let listing = self.client.list_children(lock);
        let children = listing.await;
        syncing.await.and(children)
    }

    /// When the members have confirmed the session, if that is lately enough for a hold with this ttl.
    pub(crate) fn confirmed_lately(&self, ttl: Duration) -> Option<Moment> {
        self.confirmed.lately(ttl, Clock::Boot.now())
    }

    /// Looks at the line of `lock` through the leader, and has the session confirmed.
    pub(crate) async fn look_and_confirm(&self, lock: &str) -> Answer<Vec<String>> {
        self.batches.flush();
        let confirming = self.confirm();
        let listing = self.client.list_children(lock);
        let children = listing.await;
        confirming.await.and(children)
    }

    /// Has the members confirm the session, by a transaction that changes nothing. It is sent at once.
    ///
    /// A leader that is cut off from the others answers a mere `sync` until it notices, while they may
    /// have another one already, by whose clock the session ends.
    pub(crate) fn confirm(&self) -> impl Future<Output = Answer<()>> + Send + '_ {
        let sent = Clock::Boot.now();
        let mut nothing = self.client.new_multi_writer();
        let added = nothing.add_check_version("/", ANY_VERSION);
        let committing = nothing.commit();
        async move {
            added?;
            match committing.await {
                // They confirm as well that somebody may not do it.
                Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => self.confirmed.note(sent),
                Err(MultiWriteError::RequestFailed { source }) => return Err(source),
            }
            Ok(())
        }
    }

    /// The claim of this session in the line of `lock` whose name begins with `prefix`.
    pub(crate) async fn find(
        &self,
        lock: &str,
        prefix: &str,
        children: &[String],
    ) -> Answer<Option<Node>> {
        let Some(name) = children.iter().find(|name| name.starts_with(prefix)) else {
            return Ok(None);
        };
        let path = format!("{lock}/{name}");
        let stat = self.client.check_stat(&path).await?;
        let czxid = stat.filter(|stat| self.owns(stat)).map(|stat| stat.czxid);
        Ok(czxid.map(|czxid| Node { path, czxid }))
    }

    /// Whether `node` is there, and the one that was made in this session.
    pub(crate) async fn has(&self, node: &Node) -> Answer<bool> {
        let stat = self.client.check_stat(&node.path).await?;
        Ok(self.is(node, stat))
    }

    /// The same, and tells when it changes.
    pub(crate) async fn has_and_watches(&self, node: &Node) -> Answer<Option<OneshotWatcher>> {
        let (stat, watcher) = self.client.check_and_watch_stat(&node.path).await?;
        Ok(self.is(node, stat).then_some(watcher))
    }

    /// Whether each of `nodes` is there, asked in one request; `None` for those that may not be read, for which one may
    /// still [look](Self::has).
    pub(crate) async fn have(&self, nodes: &[&Node]) -> Vec<Option<Answer<bool>>> {
        match self.read(nodes.iter().map(|node| &*node.path)).await {
            Ok(answers) if answers.len() == nodes.len() => {
                let answers = nodes.iter().zip(answers);
                answers
                    .map(|(node, answer)| self.is_read(node, answer))
                    .collect()
            }
            Ok(_) => vec![None; nodes.len()],
            Err(error) => vec![Some(Err(error)); nodes.len()],
        }
    }

    fn is_read(&self, node: &Node, answer: MultiReadResult) -> Option<Answer<bool>> {
        match answer {
            MultiReadResult::Data { stat, .. } => Some(Ok(self.is(node, Some(stat)))),
            MultiReadResult::Error {
                err: ZooKeeperError::NoNode,
            } => Some(Ok(false)),
            _ => None,
        }
    }

    async fn read(&self, paths: impl Iterator<Item = &str>) -> Answer<Vec<MultiReadResult>> {
        let mut reading = self.client.new_multi_reader();
        for path in paths {
            reading.add_get_data(path)?;
        }
        reading.commit().await
    }

    /// Whether its server reads several nodes in one request, as those before version 3.6 do not.
    pub(crate) async fn reads_together(&self) -> Answer<()> {
        self.read(iter::once("/")).await.map(drop)
    }

    /// Has a hold told of what happens to its node.
    pub(crate) fn tells(&self, watched: Watched) {
        if self.watches.send(watched).is_err() {
            tracing::debug!("the runtime of a session has ended, and the session with it");
        }
    }

    fn is(&self, node: &Node, stat: Option<Stat>) -> bool {
        stat.is_some_and(|stat| stat.czxid == node.czxid && self.owns(&stat))
    }

    fn owns(&self, stat: &Stat) -> bool {
        stat.ephemeral_owner == self.id().0
    }

    /// Tells when the claim at `path` goes or changes; and how often it changed before, `None` when it
    /// has gone.
    pub(crate) async fn watch(&self, path: &str) -> Answer<Option<(i32, OneshotWatcher)>> {
        let (stat, watcher) = self.client.check_and_watch_stat(path).await?;
        Ok(stat.map(|stat| (stat.version, watcher)))
    }

    /// Tells when somebody joins or leaves the line of `lock`.
    pub(crate) async fn watch_line(&self, lock: &str) -> Answer<OneshotWatcher> {
        let (_, watcher) = self.client.list_and_watch_children(lock).await?;
        Ok(watcher)
    }

    /// Changes the node at `path`, so that whoever watches it looks again. Nobody waits for the answer:
    /// they look again by themselves after a while.
    pub(crate) fn signal(&self, path: &str) {
        drop(self.client.set_data(path, &[], None));
    }

    /// Removes the node at `path`; whether it was there.
    pub(crate) async fn remove(&self, path: &str) -> Answer<bool> {
        let sent = Clock::Boot.now();
        let removed = self.batches.remove(path).await;
        if removed == Ok(true) {
            self.confirmed.note(sent);
        }
        removed
    }

    /// Makes the nodes at `levels` that are missing, from the top; those that are not kept are
    /// containers, which the server removes at some time after they have become empty.
    pub(crate) async fn make<'a>(
        &self,
        levels: impl Iterator<Item = (&'a str, bool)>,
    ) -> Answer<()> {
        let making = levels.map(|(path, is_kept)| {
            let (mode, data) = if is_kept {
                (CreateMode::Persistent, &[][..])
            } else {
                (CreateMode::Container, OURS)
            };
            self.client.create(path, data, &mode.with_acls(self.acls))
        });
        let making: Vec<_> = making.collect();
        let mut outcome = Ok(());
        for made in making {
            outcome = match made.await {
                // Whoever may not make a level may find it there.
                Ok(_) | Err(ZooKeeperError::NodeExists) => Ok(()),
                Err(error) => Err(error),
            };
        }
        outcome
    }

    /// Removes the container at `path` if it is ours and nothing is in it; whether it has gone.
    pub(crate) async fn tidy(&self, path: &str) -> Answer<bool> {
        match self.client.get_data(path).await {
            Err(ZooKeeperError::NoNode) => return Ok(true),
            Ok((data, stat)) if data == OURS && stat.num_children == 0 => {}
            looked => return looked.map(|_| false),
        }
        match self.client.delete(path, None).await {
            // Somebody has come meanwhile.
            Err(ZooKeeperError::NotEmpty) => Ok(false),
            Ok(()) | Err(ZooKeeperError::NoNode) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
