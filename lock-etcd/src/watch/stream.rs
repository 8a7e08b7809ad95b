//! The task that keeps the watch stream open, and registers each watch on it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_client::{EventType, KeyValue, WatchRequestSender, WatchResponse, WatchResponseStream};
use futures_util::future::OptionFuture;
use lock_core::Result;
use lock_core::backend::{Backoff, Clock, Moment};
use tokio::sync::mpsc;

use crate::connection::shared_connection::{Connection, SharedConnection};
use crate::error::no_answer;
use crate::watch::messages::{KeyWatch, WatchCommand, WatchEvent};

/// The time that the connection of a stream may take to open, and that the stream may take.
const LIMIT: Duration = Duration::from_secs(2);

/// The time that a server with unanswered requests may stay silent. Catching up for thousands of
/// watches takes a server seconds for each answer, and a stream that is opened again begins from
/// the start.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// The largest number of unanswered watch requests. A server that cannot write its answers stops
/// reading requests, so a client that sends without reading would wait for it forever.
const UNANSWERED_MAX: usize = 64;

/// The state of the task, with all watches of a client.
pub(crate) struct WatchTask {
    connection: Arc<SharedConnection>,
    watches: HashMap<i64, KeyWatch>,
    open: Option<OpenWatchStream>,
}

struct OpenWatchStream {
    connection: Arc<Connection>,
    requests: WatchRequestSender,
    answers: WatchResponseStream,
    /// The requests to send, in this order.
    outbox: VecDeque<Request>,
    /// The watches that were requested, and are not known to have begun.
    unanswered: HashSet<i64>,
    /// When the last answer came, or the first request after a pause was sent.
    last_reply: Moment,
}

#[derive(Clone, Copy)]
enum Request {
    Watch(i64),
    Cancel(i64),
}

impl WatchTask {
    /// Makes the task, without a watch.
    pub(crate) fn over(connection: Arc<SharedConnection>) -> Self {
        Self {
            connection,
            watches: HashMap::new(),
            open: None,
        }
    }

    /// Runs until the last sender of commands is dropped.
    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<WatchCommand>) {
        let pauses = || Backoff::new(Duration::from_millis(10), LIMIT / 2);
        let mut backoff = pauses();
        let sleep_until = |moment| Clock::Boot.sleep_until(moment);
        let mut opens_at: Option<Moment> = None;
        loop {
            let is_wanted = self.open.is_none() && !self.watches.is_empty();
            if is_wanted
                && opens_at.is_none()
                && let Err(error) = self.reopen().await
            {
                tracing::debug!(%error, "etcd: watch stream was not opened, trying again");
                opens_at = Some(Clock::Boot.now().plus(backoff.next_pause()));
            }
            let silent_at = self.open.as_ref().and_then(OpenWatchStream::silent_at);
            // Each branch is cancel safe: unreceived messages stay for the next iteration, and
            // unsent requests stay in the outbox.
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle(command),
                    None => return,
                },
                event = next_event(&mut self.open, &self.watches) => {
                    self.on_event(event);
                    // A stream counts as a success only after its first event.
                    match self.open {
                        Some(_) => backoff = pauses(),
                        None => opens_at = Some(Clock::Boot.now().plus(backoff.next_pause())),
                    }
                }
                Some(()) = OptionFuture::from(opens_at.map(sleep_until)) => opens_at = None,
                Some(()) = OptionFuture::from(silent_at.map(sleep_until)) => self.give_up(),
            }
        }
    }

    fn handle(&mut self, command: WatchCommand) {
        let request = match command {
            WatchCommand::Watch(number, watch) => {
                self.watches.insert(number, watch);
                Request::Watch(number)
            }
            WatchCommand::Forget(number) if self.watches.remove(&number).is_some() => {
                Request::Cancel(number)
            }
            WatchCommand::Forget(_) => return,
        };
        if let Some(open) = &mut self.open {
            // The new watch precedes the watches that are registered again, since a waiter needs it
            // now.
            open.outbox.push_front(request);
        }
    }

    /// Opens the stream with one of the watches. The remaining watches follow, each from its last
    /// position.
    async fn reopen(&mut self) -> Result<()> {
        let mut outbox: VecDeque<i64> = self.watches.keys().copied().collect();
        let Some(first) = outbox.pop_front() else {
            return Ok(());
        };
        let connection = self.connection.connection();
        let connection = self.connection.within(LIMIT, connection).await;
        let connection = connection.ok_or_else(|| no_answer(LIMIT))??;
        let (key, options) = self.watches[&first].options(first);
        let mut client = connection.client.watch_client();
        let opening = Box::pin(client.watch(key, Some(options)));
        let (requests, answers) = match self.connection.within(LIMIT, opening).await {
            Some(Ok(stream)) => stream.split(),
            Some(Err(error)) => return Err(self.connection.failed(&connection, error).into()),
            None => {
                self.connection.give_up(&connection);
                return Err(no_answer(LIMIT));
            }
        };
        self.open = Some(OpenWatchStream {
            connection,
            requests,
            answers,
            outbox: outbox.into_iter().map(Request::Watch).collect(),
            unanswered: HashSet::from([first]),
            last_reply: Clock::Boot.now(),
        });
        Ok(())
    }

    /// Closes a silent stream. It is opened again with the next member, if the cluster has several.
    fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            tracing::debug!("etcd: watch stream is silent, reconnecting");
            self.connection.give_up(&open.connection);
        }
    }

    fn on_event(&mut self, event: StreamEvent) {
        let Some(open) = &mut self.open else {
            return;
        };
        match event {
            StreamEvent::Sent => open.note_sent(),
            StreamEvent::Answer(answer) => {
                open.last_reply = Clock::Boot.now();
                open.unanswered.remove(&answer.watch_id());
                self.note(&answer);
            }
            StreamEvent::End(why) => {
                tracing::debug!(why, "etcd: watch stream ended, opening another one");
                self.open = None;
            }
        }
    }

    fn note(&mut self, answer: &WatchResponse) {
        let number = answer.watch_id();
        if answer.canceled() {
            match self.watches.remove(&number) {
                // Its next events are compacted, or the user may not read them.
                Some(watch) => (watch.tell)(WatchEvent::Lost),
                // The client cancelled the watch, or the server does not name the watch.
                None if number >= 0 => {}
                // The login may be outdated. A new connection logs in again.
                None => self.give_up(),
            }
            return;
        }
        let Some(watch) = self.watches.get_mut(&number) else {
            return;
        };
        if answer.created()
            && watch.skips
            && let Some(header) = answer.header()
        {
            watch.began_after(header.revision());
        }
        // A member that lags behind also reports earlier keys of the same name.
        let untold = watch.from.load(Ordering::Relaxed);
        let is_untold = |found: &&KeyValue| found.mod_revision() >= untold;
        for event in answer.events() {
            let Some(found) = event.kv().filter(is_untold) else {
                continue;
            };
            let now = found.mod_revision();
            watch.from.fetch_max(now + 1, Ordering::Relaxed);
            (watch.tell)(match event.event_type() {
                EventType::Delete => WatchEvent::Deleted(found.key().to_vec(), now),
                EventType::Put => WatchEvent::Written(Box::new(found.clone())),
            });
        }
    }
}

impl OpenWatchStream {
    /// Returns the next request, unless the server has to answer first.
    fn next(&mut self, watches: &HashMap<i64, KeyWatch>) -> Option<Request> {
        while let Some(Request::Watch(number)) = self.outbox.front() {
            if watches.contains_key(number) {
                break;
            }
            // The watch was cancelled before it was requested on this stream.
            self.outbox.pop_front();
        }
        let next = *self.outbox.front()?;
        let may_go = match next {
            Request::Watch(_) => self.unanswered.len() < UNANSWERED_MAX,
            Request::Cancel(_) => true,
        };
        may_go.then_some(next)
    }

    /// Notes that the next request was sent.
    fn note_sent(&mut self) {
        if let Some(Request::Watch(number)) = self.outbox.pop_front() {
            if self.unanswered.is_empty() {
                self.last_reply = Clock::Boot.now();
            }
            self.unanswered.insert(number);
        }
    }

    /// Returns when the stream counts as silent, if the server owes an answer.
    fn silent_at(&self) -> Option<Moment> {
        let owes = !self.unanswered.is_empty();
        owes.then(|| self.last_reply.plus(SILENCE_LIMIT))
    }
}

enum StreamEvent {
    /// The next request was sent.
    Sent,
    Answer(WatchResponse),
    End(&'static str),
}

/// Sends the next request, or waits for an answer, whichever comes first. A server that waits for
/// the client to read may not read the client's requests.
async fn next_event(
    open: &mut Option<OpenWatchStream>,
    watches: &HashMap<i64, KeyWatch>,
) -> StreamEvent {
    let Some(open) = open else {
        return std::future::pending().await;
    };
    let next = open.next(watches);
    let sending = async {
        match next {
            Some(Request::Watch(number)) => {
                let (key, options) = watches[&number].options(number);
                open.requests.watch(key, Some(options)).await
            }
            Some(Request::Cancel(number)) => open.requests.cancel(number).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        answer = open.answers.message() => match answer {
            Ok(Some(answer)) => StreamEvent::Answer(answer),
            Ok(None) => StreamEvent::End("the server has ended it"),
            Err(error) => {
                tracing::debug!(%error, "etcd: watch stream broke");
                StreamEvent::End("it has broken")
            }
        },
        sent = sending => match sent {
            Ok(()) => StreamEvent::Sent,
            Err(_) => StreamEvent::End("it takes no more requests"),
        },
        // A stopped member does not end the stream.
        () = open.connection.is_given_up() => StreamEvent::End("its connection was given up"),
    }
}
