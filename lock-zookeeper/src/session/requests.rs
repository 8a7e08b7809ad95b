//! One session with the ensemble, and the requests in it.
//!
//! The driver sends a request when its method is called, before the future is polled. Servers
//! answer the requests of a session in order. So this module sends several requests before it
//! awaits their answers, and a clean-up cannot overtake the request that it cleans up.
//! [Gathered](Batches) requests are sent first.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::{Clock, HoldId, Moment, Mutex};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use zookeeper_client::{Acls, Error as ZooKeeperError, MultiReadResult, MultiWriteError, Stat};

use crate::connection::open::{Connection, Watcher};
use crate::connection::request_size::RequestSize;
use crate::error::DriverResult;
use crate::paths::claim_prefix;
use crate::queue::QueueListing;
use crate::session::batch::Batches;
use crate::session::confirmed::LastConfirmation;
use crate::session::connection::{SessionConnection, counted};
use crate::session::looks::Looks;
use crate::session::node::{Joined, Node};
use crate::session::shared_watches::{SharedWatch, SharedWatches};

/// The largest sum of path lengths in one session, in bytes. The end of a session deletes its nodes
/// in one transaction, which has to be shorter than a megabyte (`jute.maxbuffer`, ZOOKEEPER-4306).
const LOAD_MAX: usize = 512 * 1024;

/// The largest number of nodes that one request reads.
const READ_MAX: usize = 64;

/// The version that matches any version of a node.
const ANY_VERSION: i32 = -1;

/// A session with the ensemble. Dropping it closes the session, which deletes its nodes.
pub(crate) struct Session {
    pub(crate) link: Arc<SessionConnection>,
    pub(crate) looks: Looks,
    batches: Arc<Batches>,
    shared_watches: SharedWatches,
    confirmed: LastConfirmation,
    pub(super) runtime: Handle,
    /// The tasks that report deleted nodes to their holds. Their watches keep the connection open.
    reporting: Mutex<JoinSet<()>>,
    pub(super) acls: Acls<'static>,
    used: Mutex<Moment>,
    retired: AtomicBool,
    /// The sum of the path lengths of its claims, in bytes.
    load: AtomicUsize,
}

impl Session {
    /// Makes a session on the runtime of the caller.
    pub(crate) fn new(link: Arc<SessionConnection>, has_user: bool) -> Self {
        let acls = if has_user {
            Acls::creator_all()
        } else {
            Acls::anyone_all()
        };
        Self {
            batches: Batches::new(Arc::clone(&link), acls, Handle::current()),
            link,
            looks: Looks::default(),
            shared_watches: SharedWatches::default(),
            confirmed: LastConfirmation::default(),
            runtime: Handle::current(),
            reporting: Mutex::default(),
            acls,
            used: Mutex::new(Clock::Boot.now()),
            retired: AtomicBool::new(false),
            load: AtomicUsize::new(0),
        }
    }

    /// Returns how long a hold counts from a confirmed request, its lock delay included.
    pub(crate) fn ttl(&self, reserve: Duration) -> Duration {
        counted(self.link.timeout(), reserve)
    }

    /// Returns true if new claims may use the session.
    pub(crate) fn is_fit(&self) -> bool {
        self.load.load(Ordering::SeqCst) < LOAD_MAX && self.is_open()
    }

    /// Returns true if the session is neither retired nor ended.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_retired() && !self.has_ended()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// Adds a claim with a path of `size` bytes to the load of the session.
    pub(crate) fn load(&self, size: usize) {
        self.load.fetch_add(size, Ordering::SeqCst);
    }

    pub(crate) fn unload(&self, size: usize) {
        self.load.fetch_sub(size, Ordering::SeqCst);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.link.has_ended()
    }

    /// Takes no new claims, and has the session closed as soon as none of its claims is in use.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// Notes that the session is in use.
    pub(crate) fn touch(&self) {
        *self.used.lock() = Clock::Boot.now();
    }

    /// Returns when the session was last in use.
    pub(crate) fn idle_since(&self) -> Moment {
        *self.used.lock()
    }

    /// Creates the node of the claim `hold` in the queue of `lock`, and lists the queue after that.
    pub(crate) async fn join(&self, lock: &Arc<str>, hold: &HoldId) -> Joined {
        let start = format!("{lock}/{}", claim_prefix(hold));
        let sent = Clock::Boot.now();
        let joined = self.batches.join(lock, start, hold.metadata()).await;
        if joined.node.is_ok() {
            self.confirmed_by(sent);
        }
        joined
    }

    /// Lists the queue of `lock`, no older than the last answered transaction of this session.
    pub(crate) async fn list(&self, lock: &str) -> DriverResult<Vec<String>> {
        let connection = self.link.current()?;
        let listing = connection.client().list_children(lock);
        connection.answer_to(RequestSize::of([lock]), listing).await
    }

    /// Notes the answer to a transaction that was sent at `sent`.
    fn confirmed_by(&self, sent: Moment) {
        self.confirmed.note(sent);
        self.link.sign(sent);
    }

    /// Returns when the members confirmed the session, if that is recent enough for a hold in it.
    pub(crate) fn confirmed_lately(&self) -> Option<Moment> {
        self.confirmed
            .lately(self.link.timeout(), Clock::Boot.now())
    }

    /// Lists the queue of `lock` through the leader. The listing has all changes that were
    /// confirmed to any client before.
    pub(crate) async fn look(&self, lock: &str) -> DriverResult<Vec<String>> {
        self.batches.flush();
        let connection = self.link.current()?;
        let syncing = connection.client().sync("/");
        let listing = connection.client().list_children(lock);
        let children = connection.answer_to(RequestSize::of([lock]), listing).await;
        connection.answer(syncing).await.and(children)
    }

    /// Lists the queue of `lock` through the leader, and confirms the session.
    pub(crate) async fn look_and_confirm(&self, lock: &str) -> DriverResult<Vec<String>> {
        self.batches.flush();
        let connection = self.link.current()?;
        let confirming = self.confirm_over(&connection);
        let listing = connection.client().list_children(lock);
        let children = connection.answer_to(RequestSize::of([lock]), listing).await;
        confirming.await.and(children)
    }

    /// Confirms the session by a transaction of the members that changes nothing.
    ///
    /// Why not `sync`: a leader that is cut off answers it until it notices. By then the other
    /// members may have a new leader, whose clock ends the session.
    pub(crate) async fn confirm(&self) -> DriverResult<()> {
        let connection = self.link.current()?;
        self.confirm_over(&connection).await
    }

    /// Sends the request of [`confirm`](Self::confirm) at once, and returns the wait for its
    /// answer.
    fn confirm_over<'a>(
        &'a self,
        connection: &'a Connection,
    ) -> impl Future<Output = DriverResult<()>> + Send + 'a {
        let sent = Clock::Boot.now();
        let mut nothing = connection.client().new_multi_writer();
        let added = nothing.add_check_version("/", ANY_VERSION);
        let committing = nothing.commit();
        async move {
            added?;
            let committed = async {
                match committing.await {
                    // A refusal for lack of permission confirms the session as well.
                    Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => Ok(()),
                    Err(MultiWriteError::RequestFailed { source }) => Err(source),
                }
            };
            connection.answer(committed).await?;
            self.confirmed_by(sent);
            Ok(())
        }
    }

    /// Returns the node `name` in the queue of `lock`, if this session created it.
    pub(crate) async fn own(&self, lock: &str, name: &str) -> DriverResult<Option<Node>> {
        let path = format!("{lock}/{name}");
        let stat = self.stat(&path).await?;
        let czxid = stat.filter(|stat| self.owns(stat)).map(|stat| stat.czxid);
        Ok(czxid.map(|czxid| Node { path, czxid }))
    }

    /// Returns true if the node at `path` is ephemeral, as claims are, or if it is gone.
    pub(crate) async fn is_ephemeral(&self, path: &str) -> DriverResult<bool> {
        let stat = self.stat(path).await?;
        Ok(stat.is_none_or(|stat| stat.ephemeral_owner != 0))
    }

    /// Returns true if `node` is there, and was created in this session.
    pub(crate) async fn has(&self, node: &Node) -> DriverResult<bool> {
        let stat = self.stat(&node.path).await?;
        Ok(self.is(node, stat))
    }

    async fn stat(&self, path: &str) -> DriverResult<Option<Stat>> {
        let connection = self.link.current()?;
        connection
            .answer(connection.client().check_stat(path))
            .await
    }

    /// Like [`has`](Self::has), but also watches the node.
    pub(crate) async fn has_and_watches(&self, node: &Node) -> DriverResult<Option<Watcher>> {
        let (stat, watcher) = self.link.stat_and_watch(&node.path).await?;
        Ok(self.is(node, stat).then_some(watcher))
    }

    /// Reads `nodes` in one request, and returns for each whether it is there. Nodes that the user
    /// may not read are then looked for with a request each.
    pub(crate) async fn have(&self, nodes: &[&Node]) -> Vec<DriverResult<bool>> {
        let paths: Vec<&str> = nodes.iter().map(|node| &*node.path).collect();
        let answers = match self.read(&paths).await {
            Ok(answers) if answers.len() == nodes.len() => answers,
            Ok(_) => Vec::new(),
            Err(error) => return vec![Err(error); nodes.len()],
        };
        let mut answers = answers.into_iter();
        let having = nodes.iter().map(|node| {
            let is_read = answers.next().and_then(|answer| self.is_read(node, answer));
            async move {
                match is_read {
                    Some(answer) => answer,
                    None => self.has(node).await,
                }
            }
        });
        join_all(having).await
    }

    fn is_read(&self, node: &Node, answer: MultiReadResult) -> Option<DriverResult<bool>> {
        match answer {
            MultiReadResult::Data { stat, .. } => Some(Ok(self.is(node, Some(stat)))),
            MultiReadResult::Error {
                err: ZooKeeperError::NoNode,
            } => Some(Ok(false)),
            _ => None,
        }
    }

    /// Reads the nodes at `paths` in one request.
    pub(crate) async fn read(&self, paths: &[&str]) -> DriverResult<Vec<MultiReadResult>> {
        let connection = self.link.current()?;
        let mut reading = connection.client().new_multi_reader();
        for path in paths {
            reading.add_get_data(path)?;
        }
        let request_size = RequestSize::of(paths.iter().copied());
        connection.answer_to(request_size, reading.commit()).await
    }

    /// Reads the nodes of the claims at these indexes of the queue of `lock`.
    pub(crate) async fn read_claims(
        &self,
        lock: &str,
        queue: &QueueListing,
        indexes: Range<usize>,
    ) -> DriverResult<Vec<MultiReadResult>> {
        let mut nodes = Vec::with_capacity(indexes.len());
        for from in indexes.clone().step_by(READ_MAX) {
            let indexes = from..indexes.end.min(from + READ_MAX);
            let paths = indexes.map(|index| format!("{lock}/{}", queue.name(index)));
            let paths: Vec<String> = paths.collect();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            nodes.extend(self.read(&paths).await?);
        }
        Ok(nodes)
    }

    /// Checks that the server can read several nodes in one request. Servers before version 3.6
    /// cannot.
    pub(crate) async fn reads_together(&self) -> DriverResult<()> {
        self.read(&["/"]).await.map(drop)
    }

    /// Runs a task that reports the deletion of a node, until the session is dropped.
    pub(crate) fn spawn_report(&self, report: impl Future<Output = ()> + Send + 'static) {
        let mut reporting = self.reporting.lock();
        while reporting.try_join_next().is_some() {}
        reporting.spawn_on(report, &self.runtime);
    }

    fn is(&self, node: &Node, stat: Option<Stat>) -> bool {
        stat.is_some_and(|stat| stat.czxid == node.czxid && self.owns(&stat))
    }

    fn owns(&self, stat: &Stat) -> bool {
        stat.ephemeral_owner == self.link.session.id().0
    }

    /// Watches the claim at `path`; waiters of the session share the watch.
    pub(crate) fn watch(&self, path: &str) -> SharedWatch {
        self.shared_watches.watch(&self.link, path)
    }

    /// Watches the queue of `lock` for created and deleted claims.
    pub(crate) async fn watch_queue(&self, lock: &str) -> DriverResult<Watcher> {
        let connection = self.link.current()?;
        let asking = connection.client().list_and_watch_children(lock);
        let (_, watcher) = connection.answer(asking).await?;
        Ok(connection.watcher(watcher))
    }

    /// Writes `data` into the node at `path`, so that its watchers look again. The answer is not
    /// awaited, since watchers look again after a while in any case.
    pub(crate) fn signal(&self, path: &str, data: &str) {
        if let Ok(connection) = self.link.current() {
            drop(connection.client().set_data(path, data.as_bytes(), None));
        }
    }

    /// Writes `data` into a node of this version, and returns the transaction. A node of another
    /// version stays as it is.
    pub(crate) async fn write(
        &self,
        node: &Node,
        data: &str,
        version: i32,
    ) -> DriverResult<Option<i64>> {
        let connection = self.link.current()?;
        let client = connection.client();
        let writing = client.set_data(&node.path, data.as_bytes(), Some(version));
        match connection.answer(writing).await {
            Ok(stat) => Ok(Some(stat.mzxid)),
            Err(ZooKeeperError::BadVersion | ZooKeeperError::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the node at `path`. Returns true if it was there.
    pub(crate) async fn remove(&self, path: &str) -> DriverResult<bool> {
        let sent = Clock::Boot.now();
        let removed = self.batches.remove(path).await;
        if removed == Ok(true) {
            self.confirmed_by(sent);
        }
        removed
    }
}
