//! Batches of the requests of one session.
//!
//! To send, order and answer a request costs client and servers far more than its operation. So
//! while a request is under way, later requests gather until all ready tasks have been polled. Then
//! all deletions are sent as one transaction, and all queues are listed by one request after the
//! creations.
//!
//! Each creation is a request of its own. The transaction id of a node is its token, and servers do
//! not report it for creations within a transaction (ZOOKEEPER-4026).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use lock_core::backend::{Detached, InFlight, Mutex, OneInFlight};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zookeeper_client::{
    Acls, CreateMode, CreateOptions, Error as ZooKeeperError, MultiReadResult, MultiWriteError,
};

use crate::connection::open::Connection;
use crate::connection::request_size::{REQUEST_MAX, RequestSize};
use crate::error::DriverResult;
use crate::queue::QueueListing;
use crate::session::connection::SessionConnection;
use crate::session::node::{Joined, made, was_there};

/// The largest number of requests in a batch: other sessions wait while a server handles the batch.
const BATCH_MAX: usize = 256;

/// The largest size of one listing of queues, in bytes. A larger listing saves little, since each
/// claim takes a request of its own. And if the connection ends, each claim of the batch has to
/// look for its node.
const LOOK_MAX: usize = 4 * 1024;

/// The answer after the end of the runtime that sent the request. The caller repeats the request.
const NO_ANSWER: ZooKeeperError = ZooKeeperError::ConnectionLoss;

/// The requests of one session that are sent in batches.
pub(crate) struct Batches {
    link: Arc<SessionConnection>,
    acls: Acls<'static>,
    runtime: Handle,
    gathered: Mutex<Gathered>,
    in_flight: InFlight,
}

/// The requests that wait to be sent, also if their callers were dropped.
#[derive(Default)]
struct Gathered {
    claims: Vec<JoinRequest>,
    removals: Vec<Removal>,
}

struct JoinRequest {
    lock: Arc<str>,
    start: String,
    data: String,
    sender: ReplySender<Joined>,
}

struct Removal {
    path: String,
    sender: ReplySender<DriverResult<bool>>,
}

/// The queues that one request has listed.
type ListedQueues = HashMap<Arc<str>, DriverResult<Arc<QueueListing>>>;

/// The sender of the answer to one caller.
struct ReplySender<T> {
    answer: oneshot::Sender<T>,
    _in_flight: OneInFlight,
}

/// A guard that sends the gathered requests when it is dropped, also at the end of its runtime.
struct Flush(Arc<Batches>);

impl Batches {
    /// Makes batches that are sent over `link`. Their answers are awaited on `runtime`.
    pub(crate) fn new(
        link: Arc<SessionConnection>,
        acls: Acls<'static>,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(Self {
            link,
            acls,
            runtime,
            gathered: Mutex::default(),
            in_flight: InFlight::default(),
        })
    }

    /// Creates a node with `data` whose path begins with `start`, and lists the queue of `lock`
    /// after that.
    pub(crate) async fn join(
        self: &Arc<Self>,
        lock: &Arc<str>,
        start: String,
        data: String,
    ) -> Joined {
        let together = self.gather(|gathered, sender| {
            gathered.claims.push(JoinRequest {
                lock: Arc::clone(lock),
                start: start.clone(),
                data: data.clone(),
                sender,
            });
        });
        let _alone = match together {
            Ok(answered) => {
                return answered
                    .await
                    .unwrap_or_else(|_gone| Joined::refused(NO_ANSWER));
            }
            Err(in_flight) => in_flight,
        };
        let connection = match self.link.current() {
            Ok(connection) => connection,
            Err(error) => return Joined::refused(error),
        };
        let client = connection.client();
        let (creating, listing) = {
            // After the gathered requests.
            let mut gathered = self.gathered.lock();
            self.send(&mut gathered);
            (
                client.create(&start, data.as_bytes(), &of_claims(self.acls)),
                client.list_children(lock),
            )
        };
        // Wait for the last answer first, so that the task wakes up once.
        let children = connection.answer(listing).await;
        let request_size = RequestSize::of([&*start, &*data]);
        let node = made(&start, connection.answer_to(request_size, creating).await);
        let queue = children.map(|children| Arc::new(QueueListing::new(children)));
        Joined { node, queue }
    }

    /// Deletes the node at `path`. Returns true if it was there.
    pub(crate) async fn remove(self: &Arc<Self>, path: &str) -> DriverResult<bool> {
        let together = self.gather(|gathered, sender| {
            gathered.removals.push(Removal {
                path: path.to_owned(),
                sender,
            });
        });
        let _alone = match together {
            Ok(answered) => return answered.await.unwrap_or(Err(NO_ANSWER)),
            Err(in_flight) => in_flight,
        };
        let connection = self.link.current()?;
        let removing = {
            let mut gathered = self.gathered.lock();
            self.send(&mut gathered);
            connection.client().delete(path, None)
        };
        let request_size = RequestSize::of([path]);
        was_there(connection.answer_to(request_size, removing).await)
    }

    /// Sends the gathered requests, so that the next request follows them.
    pub(crate) fn flush(&self) {
        self.send(&mut self.gathered.lock());
    }

    /// Adds a request to the batch if another request is under way; else the caller sends it alone.
    fn gather<T>(
        self: &Arc<Self>,
        enter: impl FnOnce(&mut Gathered, ReplySender<T>),
    ) -> Result<oneshot::Receiver<T>, OneInFlight> {
        let (others, in_flight) = self.in_flight.enter();
        if others == 0 {
            return Err(in_flight);
        }
        let (answer, answered) = oneshot::channel();
        let mut gathered = self.gathered.lock();
        let is_first = gathered.is_empty();
        let sender = ReplySender {
            answer,
            _in_flight: in_flight,
        };
        enter(&mut gathered, sender);
        if gathered.len() >= BATCH_MAX {
            self.send(&mut gathered);
        } else if is_first {
            // Unlock first: a runtime that has ended drops `flush` at once, which locks again.
            drop(gathered);
            let flush = Flush(Arc::clone(self));
            self.runtime.spawn(async move {
                // Other ready tasks may add requests.
                tokio::task::yield_now().await;
                drop(flush);
            });
        }
        Ok(answered)
    }

    /// Sends all gathered requests, deletions first. Why: a client that releases a lock and takes
    /// it again must not meet its own old claim.
    fn send(&self, gathered: &mut Gathered) {
        if gathered.is_empty() {
            return;
        }
        let Gathered { claims, removals } = std::mem::take(gathered);
        let connection = match self.link.current() {
            Ok(connection) => connection,
            Err(error) => return fail_requests(claims, removals, &error),
        };
        let request_sizes = &self.link.request_sizes;
        for removals in request_sizes.cut(removals, BATCH_MAX, REQUEST_MAX, |removal| {
            removal.path.len()
        }) {
            self.start(remove(Arc::clone(&connection), removals));
        }
        for claims in request_sizes.cut(claims, BATCH_MAX, LOOK_MAX, |claim| claim.lock.len()) {
            self.start(join(Arc::clone(&connection), self.acls, claims));
        }
    }

    /// Polls `asking` once, so that it sends its requests now, and spawns the rest of it.
    fn start(&self, asking: impl Future<Output = ()> + Send + 'static) {
        let _sent = Detached::new(&self.runtime, asking).now_or_never();
    }
}

impl Gathered {
    fn len(&self) -> usize {
        self.claims.len() + self.removals.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> ReplySender<T> {
    fn send(self, answer: T) {
        // The caller may be gone.
        let _ = self.answer.send(answer);
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Returns the options of claims' nodes.
fn of_claims(acls: Acls<'static>) -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(acls)
}

/// Deletes nodes in one transaction. If a node is missing, the transaction deletes none, and each
/// node is deleted by a request of its own.
async fn remove(connection: Arc<Connection>, removals: Vec<Removal>) {
    let client = connection.client();
    let mut together = client.new_multi_writer();
    let added = removals
        .iter()
        .try_for_each(|removal| together.add_delete(&removal.path, None));
    let committing = together.commit();
    let all_removed = async {
        added?;
        match committing.await {
            Ok(_) => Ok(true),
            Err(MultiWriteError::OperationFailed { .. }) => Ok(false),
            Err(MultiWriteError::RequestFailed { source }) => Err(source),
        }
    };
    let request_size = RequestSize::of(removals.iter().map(|removal| &*removal.path));
    match connection.answer_to(request_size, all_removed).await {
        Ok(true) => removals
            .into_iter()
            .for_each(|removal| removal.sender.send(Ok(true))),
        Ok(false) => {
            // Collected, so that all requests are sent, also for dropped callers.
            let removing: Vec<_> = removals
                .iter()
                .map(|removal| connection.answer(client.delete(&removal.path, None)))
                .collect();
            let removed = join_all(removing).await;
            for (removal, removed) in removals.into_iter().zip(removed) {
                removal.sender.send(was_there(removed));
            }
        }
        Err(error) => removals
            .into_iter()
            .for_each(|removal| removal.sender.send(Err(error.clone()))),
    }
}

/// Creates the nodes of claims, and lists their queues in one request.
async fn join(connection: Arc<Connection>, acls: Acls<'static>, claims: Vec<JoinRequest>) {
    let options = of_claims(acls);
    let creating: Vec<_> = claims
        .iter()
        .map(|claim| {
            let client = connection.client();
            client.create(&claim.start, claim.data.as_bytes(), &options)
        })
        .collect();
    let creating = creating.into_iter().zip(&claims).map(|(asking, claim)| {
        let request_size = RequestSize::of([&*claim.start, &*claim.data]);
        connection.answer_to(request_size, asking)
    });
    let locks: HashSet<Arc<str>> = claims.iter().map(|claim| Arc::clone(&claim.lock)).collect();
    let queues = look(&connection, locks).await;
    let created = join_all(creating).await;
    for (claim, created) in claims.into_iter().zip(created) {
        let queue = match &queues {
            Ok(queues) => queues.get(&claim.lock).cloned().unwrap_or_else(|| {
                Err(ZooKeeperError::UnexpectedError(
                    "the server answered a listing with another kind of result".into(),
                ))
            }),
            Err(error) => Err(error.clone()),
        };
        let node = made(&claim.start, created);
        claim.sender.send(Joined { node, queue });
    }
}

/// Lists the queues of `locks`.
async fn look(connection: &Connection, locks: HashSet<Arc<str>>) -> DriverResult<ListedQueues> {
    let mut looking = connection.client().new_multi_reader();
    for lock in &locks {
        looking.add_get_children(lock)?;
    }
    let request_size = RequestSize::of(locks.iter().map(|lock| &**lock));
    let answers = connection.answer_to(request_size, looking.commit()).await?;
    let queues = locks.into_iter().zip(answers).filter_map(|(lock, answer)| {
        let queue = match answer {
            MultiReadResult::Children { children } => Ok(Arc::new(QueueListing::new(children))),
            MultiReadResult::Error { err } => Err(err),
            _ => return None,
        };
        Some((lock, queue))
    });
    Ok(queues.collect())
}

/// Answers requests that cannot be sent.
fn fail_requests(claims: Vec<JoinRequest>, removals: Vec<Removal>, error: &ZooKeeperError) {
    for removal in removals {
        removal.sender.send(Err(error.clone()));
    }
    for claim in claims {
        claim.sender.send(Joined::refused(error.clone()));
    }
}
