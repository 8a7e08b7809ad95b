//! Keeps all leases of a client alive by one stream.
//!
//! A leader answers keep-alives by itself. A leader that is cut off from the other members
//! continues to answer for up to two election timeouts. By then the cluster may have a new leader,
//! whose clock ends the lease. So an answer counts only once a majority has confirmed the leader. A
//! transaction that begins after the answer has to show that the cluster is still in the term of
//! the answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, Error as EtcdError, LeaseKeepAliveResponse, LeaseKeepAliveStream,
    LeaseKeeper, ResponseHeader, Txn, TxnOp,
};
use futures_util::future::OptionFuture;
use lock_core::Result;
use lock_core::backend::{Clock, Moment};
use tokio::sync::{mpsc, oneshot};

use crate::connection::shared_connection::{Connection, SharedConnection};
use crate::error::{is_lease_missing, no_answer, runtime_gone, unavailable, unexpected};

/// The handle of the task that sends keep-alives.
#[derive(Clone)]
pub(crate) struct KeepAlive {
    asks: mpsc::UnboundedSender<KeepAliveRequest>,
    connection: Arc<SharedConnection>,
}

/// The answer of a server to a keep-alive.
#[derive(Clone, Copy)]
pub(crate) enum KeptAlive {
    /// The lease lives for `ttl` from some moment after `sent`, if the cluster was still in this
    /// `term`.
    For {
        sent: Moment,
        ttl: Duration,
        term: u64,
    },
    /// The lease does not exist, if the cluster was still in this `term`. `None` if two connections
    /// have reported that.
    Gone { term: Option<u64> },
}

impl KeptAlive {
    /// Returns the term of the leader that answered. A deposed leader that has not noticed its
    /// successor knows no leases that the successor has granted or kept alive.
    pub(crate) fn term(self) -> Option<u64> {
        match self {
            Self::For { term, .. } => Some(term),
            Self::Gone { term } => term,
        }
    }
}

struct KeepAliveRequest {
    lease: i64,
    limit: Duration,
    answer: AnswerSender,
}

type AnswerSender = oneshot::Sender<Result<KeptAlive>>;

impl KeepAlive {
    /// Starts the task that sends keep-alives over `connection`, on the runtime of the connection.
    pub(crate) fn over(connection: Arc<SharedConnection>) -> Self {
        let (asks, inbox) = mpsc::unbounded_channel();
        let stream = KeepAliveTask {
            connection: Arc::clone(&connection),
            open: None,
            unanswered: HashMap::new(),
            missed: HashSet::new(),
        };
        connection.runtime().spawn(stream.run(inbox));
        Self { asks, connection }
    }

    /// Keeps `lease` alive, and confirms the answer by a transaction, whose term it returns, too.
    ///
    /// `key` is called after the answer, and returns a key that the user may write. While `key`
    /// returns `None`, there is no hold under the lease, and no transaction.
    ///
    /// # Errors
    ///
    /// If it is unknown whether the lease is alive.
    pub(crate) async fn renew(
        &self,
        lease: i64,
        key: impl Fn() -> Option<Arc<str>>,
        limit: Duration,
    ) -> Result<(KeptAlive, Option<u64>)> {
        let told = self.ask(lease, limit).await?;
        match (key(), told.term()) {
            (Some(key), Some(_)) => Ok((told, Some(self.term(&key, limit).await?))),
            _ => Ok((told, None)),
        }
    }

    /// Waits for `work`, at most for `limit`.
    pub(crate) async fn within<F: Future>(&self, limit: Duration, work: F) -> Option<F::Output> {
        self.connection.within(limit, work).await
    }

    /// Returns the term of a majority of the members.
    ///
    /// The transaction never writes, since no revision is below zero. But it may write, so the
    /// members agree on it as on a write. Plain reads do not suffice: after a pause, some versions
    /// answer reads from their own state (<https://github.com/etcd-io/etcd/issues/20418>). The
    /// transaction may delete rather than put, because members that have reached their quota refuse
    /// every request that may put.
    async fn term(&self, key: &str, limit: Duration) -> Result<u64> {
        let look = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Less, 0)])
            .and_then([TxnOp::delete(key, None)]);
        let agree = |client: Arc<Client>| {
            let look = look.clone();
            async move { client.kv_client().txn(look).await }
        };
        let found = self.connection.ask(limit, agree).await?;
        found
            .header()
            .map(ResponseHeader::raft_term)
            .ok_or_else(|| unexpected("no term"))
    }

    /// Sends a keep-alive, or joins an unanswered keep-alive for this lease.
    async fn ask(&self, lease: i64, limit: Duration) -> Result<KeptAlive> {
        let (answer, outcome) = oneshot::channel();
        let ask = KeepAliveRequest {
            lease,
            limit,
            answer,
        };
        self.asks.send(ask).map_err(|_| runtime_gone())?;
        outcome.await.map_err(|_| runtime_gone())?
    }
}

/// The state of the task.
struct KeepAliveTask {
    connection: Arc<SharedConnection>,
    open: Option<OpenKeepAliveStream>,
    /// The unanswered requests, at most one for each lease. An answer names only its lease, and the
    /// time of its request has to be known.
    unanswered: HashMap<i64, UnansweredKeepAlive>,
    /// The leases that a server did not know when a stream was opened for them, since the last open
    /// stream.
    missed: HashSet<i64>,
}

struct OpenKeepAliveStream {
    connection: Arc<Connection>,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
}

struct UnansweredKeepAlive {
    sent: Moment,
    ends: Moment,
    waiting: Vec<AnswerSender>,
}

impl OpenKeepAliveStream {
    /// Returns the sender for `lease`, which may differ from the lease that opened the stream.
    fn keeper(&self, lease: i64) -> LeaseKeeper {
        LeaseKeeper {
            id: lease,
            sender: self.keeper.sender.clone(),
        }
    }
}

impl KeepAliveTask {
    /// Runs until the last sender is dropped.
    async fn run(mut self, mut asks: mpsc::UnboundedReceiver<KeepAliveRequest>) {
        let sleep_until = |moment| Clock::Boot.sleep_until(moment);
        loop {
            let ends = self.unanswered.values().map(|asked| asked.ends).min();
            // Each branch is cancel safe: unreceived messages stay for the next iteration.
            tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => self.ask(ask).await,
                    None => return,
                },
                answer = next_answer(&mut self.open) => self.on_answer(answer),
                Some(()) = OptionFuture::from(ends.map(sleep_until)) => self.fail("had no answer in time"),
            }
        }
    }

    async fn ask(&mut self, ask: KeepAliveRequest) {
        if ask.answer.is_closed() {
            return;
        }
        if let Some(asked) = self.unanswered.get_mut(&ask.lease) {
            asked.waiting.push(ask.answer);
            return;
        }
        if let Some(open) = &self.open
            && open.connection.was_given_up()
        {
            self.fail("has lost its connection");
        }
        let mut keeper = match self.keeper(ask.lease, ask.limit).await {
            Ok(keeper) => keeper,
            Err(answer) => {
                let _unheard = ask.answer.send(answer);
                return;
            }
        };
        let sent = Clock::Boot.now();
        let asked = UnansweredKeepAlive {
            sent,
            ends: sent.plus(ask.limit),
            waiting: vec![ask.answer],
        };
        self.unanswered.insert(ask.lease, asked);
        match self.connection.within(ask.limit, keeper.keep_alive()).await {
            Some(Ok(())) => {}
            Some(Err(_)) | None => self.fail("takes no more requests"),
        }
    }

    /// Returns the sender for `lease`, and opens the stream if necessary. The error is the answer
    /// to the request.
    async fn keeper(
        &mut self,
        lease: i64,
        limit: Duration,
    ) -> std::result::Result<LeaseKeeper, Result<KeptAlive>> {
        if let Some(open) = &self.open {
            return Ok(open.keeper(lease));
        }
        let sent = Clock::Boot.now();
        // Boxed: the driver's futures are large.
        let opening = Box::pin(async {
            let connection = self.connection.connection().await?;
            let mut client = connection.client.lease_client();
            // The driver opens the stream with a first keep-alive. It keeps the answer and only
            // reports that the lease is alive, so the ttl comes with the next answer.
            let opening = client.keep_alive(lease);
            match self.connection.within(limit, opening).await {
                Some(Ok((keeper, answers))) => Ok(Some(OpenKeepAliveStream {
                    connection,
                    keeper,
                    answers,
                })),
                Some(Err(error)) if is_lease_missing(&error) => {
                    self.connection.give_up(&connection);
                    Ok(None)
                }
                Some(Err(error)) => Err(self.connection.failed(&connection, error).into()),
                None => {
                    self.connection.give_up(&connection);
                    Err(no_answer(limit).with_server(connection.server.to_string()))
                }
            }
        });
        let opened = self.connection.within(limit * 2, opening).await;
        match opened.unwrap_or_else(|| Err(no_answer(limit))) {
            Ok(Some(open)) => {
                self.missed.clear();
                self.connection.replies.note(sent);
                Ok(self.open.insert(open).keeper(lease))
            }
            Ok(None) => Err(self.missing(lease)),
            Err(error) => Err(Err(error)),
        }
    }

    /// Asks another connection when a lease is missing. The driver does not report the term of the
    /// answer.
    fn missing(&mut self, lease: i64) -> Result<KeptAlive> {
        if !self.missed.insert(lease) {
            self.missed.remove(&lease);
            return Ok(KeptAlive::Gone { term: None });
        }
        Err(unavailable(
            "the server does not know the lease: asking the next server",
        ))
    }

    fn on_answer(&mut self, answer: StreamAnswer) {
        let answer = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => return self.fail("was ended by the server"),
            Err(error) => {
                tracing::debug!(%error, "etcd: keep-alive stream broke, opening another one");
                return self.fail("broke");
            }
        };
        let Some(asked) = self.unanswered.remove(&answer.id()) else {
            return;
        };
        self.connection.replies.note(asked.sent);
        let term = answer.header().map_or(0, ResponseHeader::raft_term);
        let told = match u64::try_from(answer.ttl()) {
            Ok(ttl) if ttl > 0 => KeptAlive::For {
                sent: asked.sent,
                ttl: Duration::from_secs(ttl),
                term,
            },
            Ok(_) | Err(_) => KeptAlive::Gone { term: Some(term) },
        };
        for reply in asked.waiting {
            let _unheard = reply.send(Ok(told));
        }
    }

    /// Closes the stream, and its connection if a request is unanswered.
    fn fail(&mut self, why: &str) {
        let mut error = unavailable(format!("the keep-alive stream {why}: opening another one"));
        if let Some(open) = self.open.take()
            && !self.unanswered.is_empty()
        {
            error = error.with_server(open.connection.server.to_string());
            self.connection.give_up(&open.connection);
        }
        for (_, asked) in self.unanswered.drain() {
            for reply in asked.waiting {
                let _unheard = reply.send(Err(error.clone()));
            }
        }
    }
}

/// The next message of the stream; `None` at its end.
type StreamAnswer = std::result::Result<Option<LeaseKeepAliveResponse>, EtcdError>;

async fn next_answer(open: &mut Option<OpenKeepAliveStream>) -> StreamAnswer {
    match open {
        Some(open) => open.answers.message().await,
        None => std::future::pending().await,
    }
}
