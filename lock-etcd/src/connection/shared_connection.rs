//! One connection to a member of the cluster, shared by many requests and replaced when it fails.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Client, Error as EtcdError, Txn, TxnOp, TxnOpResponse, TxnResponse};
use lock_core::backend::{BatchSize, Clock, Deadlines, Reconnecting, ReplyStats};
use lock_core::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::connection::connect::Connector;
use crate::error::{Failure, is_answer, no_answer, unexpected};
use crate::queue::revision;

/// The time that a request waits for its answer, if no shorter limit applies. That is usually long
/// enough for the members to elect a leader.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// The largest number of operations in one transaction; servers allow 128 by default
/// (`--max-txn-ops`).
const LARGEST_BATCH: usize = 100;

/// The largest answer, in bytes: a long queue, or many locks with names below the name of the lock.
pub(crate) const ANSWER_MAX: usize = 64 << 20;

/// The time that opening a connection to one member may take before the next member is tried.
const MEMBER_LIMIT: Duration = Duration::from_secs(1);

/// The limit for a connection with a login. Servers hash passwords slowly on purpose, and one
/// password at a time.
const LOGIN_LIMIT: Duration = Duration::from_secs(3);

/// The number of times that a request is repeated because users are being changed on the servers.
const LOGINS: usize = 3;

/// A connection that is opened at its first use and again after it failed.
pub(crate) struct SharedConnection {
    connector: Arc<Connector>,
    deadlines: Deadlines,
    open: Reconnecting<Connection>,
    /// The member to try next.
    next: AtomicUsize,
    /// When the servers answered last, and how fast.
    pub(crate) replies: ReplyStats,
    /// The number of operations that the servers take in one transaction.
    batch_size: BatchSize,
}

/// An open connection to a member.
pub(crate) struct Connection {
    pub(crate) client: Arc<Client>,
    /// The member's host and port.
    pub(crate) server: Arc<str>,
    member: usize,
    /// Becomes true when the connection is given up.
    gone: watch::Sender<bool>,
}

impl Connection {
    pub(crate) fn was_given_up(&self) -> bool {
        *self.gone.borrow()
    }

    /// Waits until the connection is given up.
    pub(crate) async fn is_given_up(&self) {
        let mut gone = self.gone.subscribe();
        // An error would mean that the sender is gone, which `self` holds.
        let _outcome = gone.wait_for(|gone| *gone).await;
    }
}

impl SharedConnection {
    pub(crate) fn new(
        connector: Arc<Connector>,
        deadlines: Deadlines,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(Self {
            connector,
            deadlines,
            open: Reconnecting::new(runtime),
            next: AtomicUsize::new(0),
            replies: ReplyStats::new(),
            batch_size: BatchSize::new(LARGEST_BATCH),
        })
    }

    /// Returns the runtime that drives the connection.
    pub(crate) fn runtime(&self) -> &Handle {
        self.open.runtime()
    }

    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Waits for `request`, at most for `limit`.
    pub(crate) async fn within<F: Future>(&self, limit: Duration, request: F) -> Option<F::Output> {
        self.deadlines.timeout(limit, request).await
    }

    /// Sends a request that may be repeated, and waits at most `limit` for its answer. If a member
    /// does not answer within half of `limit`, the request is sent to the next member.
    pub(crate) async fn ask<T, F>(
        self: &Arc<Self>,
        limit: Duration,
        request: impl Fn(Arc<Client>) -> F,
    ) -> std::result::Result<T, Failure>
    where
        F: Future<Output = std::result::Result<T, EtcdError>>,
    {
        self.ask_noting(limit, request, || {}).await
    }

    /// Like [`ask`](Self::ask), but also calls `in_doubt` if a request may still arrive. That may
    /// be so even if the repetition of the request is answered.
    pub(crate) async fn ask_noting<T, F>(
        self: &Arc<Self>,
        limit: Duration,
        request: impl Fn(Arc<Client>) -> F,
        in_doubt: impl Fn(),
    ) -> std::result::Result<T, Failure>
    where
        F: Future<Output = std::result::Result<T, EtcdError>>,
    {
        let ends = Clock::Boot.now().plus(limit);
        let share = if self.connector.members() > 1 {
            limit / 2
        } else {
            limit
        };
        // Kept over attempts: once a request was sent, its outcome stays unknown.
        let (mut unknown, mut logged_out) = (None, None);
        for _ in 0..self.connector.members() + LOGINS {
            let left = ends.since(Clock::Boot.now());
            if left.is_zero() {
                break;
            }
            match self.ask_once(share.min(left), left, &request).await {
                Err(Failure::Unknown(error)) => {
                    in_doubt();
                    unknown = Some(error);
                }
                Err(Failure::LoggedOut(error)) => logged_out = Some(error),
                Err(Failure::NotSent(error)) if error.is_retryable() && unknown.is_some() => {}
                outcome => return outcome,
            }
            // The connection to the only member is still open: a repetition would get the same
            // answer.
            if !self.open.is_closed() && self.connector.members() == 1 {
                break;
            }
        }
        Err(match (unknown, logged_out) {
            (Some(error), _) => Failure::Unknown(error),
            (None, Some(error)) => Failure::LoggedOut(error),
            (None, None) => self.not_sent_within(limit),
        })
    }

    async fn ask_once<T, F>(
        self: &Arc<Self>,
        limit: Duration,
        connect_limit: Duration,
        request: &impl Fn(Arc<Client>) -> F,
    ) -> std::result::Result<T, Failure>
    where
        F: Future<Output = std::result::Result<T, EtcdError>>,
    {
        let connection = self.within(connect_limit, self.connection()).await;
        let connection = connection
            .ok_or_else(|| self.not_sent_within(connect_limit))?
            .map_err(Failure::NotSent)?;
        let sent = Clock::Boot.now();
        // Boxed: the driver's futures are large.
        let asking = Box::pin(request(Arc::clone(&connection.client)));
        match self.within(limit, asking).await {
            Some(Ok(answer)) => {
                self.replies.note(sent);
                Ok(answer)
            }
            Some(Err(error)) => Err(self.failed(&connection, error)),
            None => {
                self.give_up(&connection);
                Err(Failure::Unknown(no_answer_of(&connection.server, limit)))
            }
        }
    }

    fn not_sent_within(&self, limit: Duration) -> Failure {
        Failure::NotSent(no_answer_of(&self.connector.servers(), limit))
    }

    /// Sends an `operation` for each of `items`, as many in one transaction as the servers take.
    /// Reads each outcome together with the revision of its transaction. Each request may take
    /// `limit`, and may be repeated.
    ///
    /// # Errors
    ///
    /// If a batch fails, the batches before it have been carried out.
    pub(crate) async fn ask_for_all<I, R>(
        self: &Arc<Self>,
        limit: Duration,
        items: &[I],
        operation: impl Fn(&I) -> TxnOp,
        read: impl Fn(i64, &TxnOpResponse) -> R,
    ) -> std::result::Result<Vec<R>, Failure> {
        let mut results = Vec::with_capacity(items.len());
        while results.len() < items.len() {
            let left = &items[results.len()..];
            let batch = &left[..left.len().min(self.batch_size.get())];
            let operations: Vec<TxnOp> = batch.iter().map(&operation).collect();
            let asking = |client| transact(client, Txn::new().and_then(operations.clone()));
            match self.ask(limit, asking).await {
                Ok(answer) => {
                    let now = revision(&answer).map_err(Failure::Unknown)?;
                    let outcomes = answer.op_responses();
                    if outcomes.len() != batch.len() {
                        let error = unexpected("operations without an outcome");
                        return Err(Failure::Unknown(error));
                    }
                    results.extend(outcomes.iter().map(|outcome| read(now, outcome)));
                }
                Err(Failure::TooLarge(_)) if batch.len() > 1 => {
                    self.batch_size.halve(batch.len());
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(results)
    }

    /// Turns an error into a failure, and gives the connection up if the error concerns it.
    pub(crate) fn failed(&self, connection: &Arc<Connection>, error: EtcdError) -> Failure {
        let answered = is_answer(&error);
        let failure = Failure::of(error, &connection.server);
        // A member that is cut off from the other members also answers. Another member may succeed.
        let is_logged_out = matches!(failure, Failure::LoggedOut(_));
        if failure.is_retryable() && (!answered || is_logged_out || self.connector.members() > 1) {
            self.give_up(connection);
        }
        failure
    }

    /// Closes the connection, unless it was replaced already. The next request connects to the next
    /// member.
    pub(crate) fn give_up(&self, connection: &Arc<Connection>) {
        if self.open.forget(connection) {
            self.next.store(connection.member + 1, Ordering::Relaxed);
        }
        connection.gone.send_replace(true);
    }

    /// Returns the open connection, and opens a connection if necessary.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>> {
        let open = || {
            let shared = Arc::clone(self);
            async move { shared.connect().await }
        };
        self.open.get(open).await
    }

    /// Opens a connection to the first member that answers. The search begins with the next member.
    async fn connect(&self) -> Result<Connection> {
        let limit = if self.connector.logs_in() {
            LOGIN_LIMIT
        } else {
            MEMBER_LIMIT
        };
        let (first, mut failure) = (self.next.load(Ordering::Relaxed), None);
        for member in first..first + self.connector.members() {
            let server = self.connector.server(member);
            let opening = Box::pin(self.connector.open(member));
            let opened = self.within(limit, opening).await;
            match opened.unwrap_or_else(|| Err(no_answer(limit))) {
                Ok(client) => {
                    return Ok(Connection {
                        client: Arc::new(client),
                        server: server.into(),
                        member,
                        gone: watch::Sender::new(false),
                    });
                }
                Err(error) => {
                    let error = error.with_server(server);
                    if !error.is_retryable() {
                        return Err(error);
                    }
                    failure = Some(error);
                }
            }
        }
        Err(failure.unwrap_or_else(|| no_answer(limit)))
    }
}

fn no_answer_of(server: &str, limit: Duration) -> Error {
    no_answer(limit).with_server(server.to_owned())
}

/// Sends a transaction, whose answer may be large.
pub(crate) async fn transact(
    client: Arc<Client>,
    transaction: Txn,
) -> std::result::Result<TxnResponse, EtcdError> {
    let mut client = client.kv_client().max_decoding_message_size(ANSWER_MAX);
    client.txn(transaction).await
}
