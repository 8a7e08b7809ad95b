//! One stream by which servers tell a client that keys have gone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use etcd_client::{
    EventType, KeyValue, WatchFilterType, WatchOptions, WatchRequestSender, WatchResponse,
    WatchResponseStream,
};
use lock_core::{Backoff, Clock, Moment, Result};
use tokio::sync::mpsc;

use crate::error::{no_answer, runtime_gone};
use crate::layout::end_of;
use crate::link::{Connection, Link};

/// How long the connection of a stream may take to open, and the stream itself.
const LIMIT: Duration = Duration::from_secs(2);

/// How long a server that owes answers may say nothing at all. One that catches up for thousands of
/// watches takes seconds for the next answer, and a stream that is opened anew begins from the start.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// How many watches may be asked for without an answer. A server that cannot write its answers reads no
/// more requests, so a client that sends without reading would wait for it for ever.
const UNANSWERED_MAX: usize = 64;

/// The revision of whatever is written next, as a server understands it.
const NOW: i64 = 0;

/// Has keys watched.
#[derive(Clone, Debug)]
pub(crate) struct Watches {
    orders: mpsc::UnboundedSender<Order>,
    numbers: Arc<AtomicI64>,
}

/// What is told about a watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// This key has gone, in this revision.
    Gone(Vec<u8>, i64),
    /// Something had been written before the watch began, and what that was is not told.
    Behind,
    /// What happened cannot be told any more; no more is told.
    Missed,
}

/// What is to be watched.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    Key(Vec<u8>),
    /// Everything that begins with this, which ends with a slash.
    Below(String),
}

type Tell = Box<dyn Fn(News) + Send + Sync>;

enum Order {
    Watch(i64, Watch),
    Forget(i64),
}

struct Watch {
    watched: Watched,
    /// The first revision that has not been told about, and need be.
    from: Arc<AtomicI64>,
    /// Whether what was written until it begins is left out.
    skips: bool,
    tell: Tell,
}

/// A watch; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Subscription {
    number: i64,
    from: Arc<AtomicI64>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Subscription {
    /// Notes what was seen of the keys in this revision, so that the watch, should it begin anew, need not
    /// begin earlier, where history may be compacted.
    pub(crate) fn seen(&self, revision: i64) {
        self.from.fetch_max(revision + 1, Ordering::Relaxed);
    }
}

impl Watches {
    /// Watches over `link`, in a task where that lives.
    pub(crate) fn over(link: Arc<Link>) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let watching = Watching {
            link: Arc::clone(&link),
            watches: HashMap::new(),
            open: None,
        };
        link.runtime().spawn(watching.run(inbox));
        Self {
            orders,
            numbers: Arc::new(AtomicI64::new(1)),
        }
    }

    /// Tells whenever one of the `watched` keys goes, from the revision `from` on. It may tell late, above all
    /// what it has to catch up with, or not at all while nobody can be reached, so whoever waits looks by
    /// itself now and then.
    pub(crate) fn watch_from(
        &self,
        from: i64,
        watched: Watched,
        tell: impl Fn(News) + Send + Sync + 'static,
    ) -> Result<Subscription> {
        self.watch(watched, from, false, Box::new(tell))
    }

    /// Tells whenever one of the `watched` keys goes, from now on, and first whether the store is
    /// [behind](News::Behind), since `known` was its revision. That is told at once: servers look only ten times
    /// a second for those who have to catch up.
    pub(crate) fn watch_since(
        &self,
        known: i64,
        watched: Watched,
        tell: impl Fn(News) + Send + Sync + 'static,
    ) -> Result<Subscription> {
        self.watch(watched, known + 1, true, Box::new(tell))
    }

    fn watch(&self, watched: Watched, from: i64, skips: bool, tell: Tell) -> Result<Subscription> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let from = Arc::new(AtomicI64::new(from));
        let watch = Watch {
            watched,
            from: Arc::clone(&from),
            skips,
            tell,
        };
        let order = Order::Watch(number, watch);
        self.orders.send(order).map_err(|_| runtime_gone())?;
        Ok(Subscription {
            number,
            from,
            orders: self.orders.clone(),
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Without a task nothing is watched.
        let _unheard = self.orders.send(Order::Forget(self.number));
    }
}

/// The task's side.
struct Watching {
    link: Arc<Link>,
    watches: HashMap<i64, Watch>,
    open: Option<Open>,
}

struct Open {
    connection: Connection,
    requests: WatchRequestSender,
    answers: WatchResponseStream,
    /// What is to be sent, in this order.
    outbox: VecDeque<Request>,
    /// Watches that were asked for, and are not known to have begun.
    unanswered: HashSet<i64>,
    /// When the last answer came, or the first request after a pause was sent.
    heard: Moment,
}

#[derive(Clone, Copy)]
enum Request {
    Watch(i64),
    Cancel(i64),
}

impl Watching {
    /// Until nobody can order anything any more.
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let pauses = || Backoff::new(Duration::from_millis(10), LIMIT / 2);
        let mut backoff = pauses();
        let mut opens_at: Option<Moment> = None;
        loop {
            let is_wanted = self.open.is_none() && !self.watches.is_empty();
            if is_wanted
                && opens_at.is_none()
                && let Err(error) = self.reopen().await
            {
                tracing::debug!(%error, "keys cannot be watched; trying again");
                opens_at = Some(Clock::Boot.now().plus(backoff.next_pause()));
            }
            let silent_at = self.open.as_ref().and_then(Open::silent_at);
            // Each arm is cancel safe: what was not received stays for the next turn, and what was not sent
            // stays in the outbox.
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => return,
                },
                heard = next_event(&mut self.open, &self.watches) => {
                    self.hear(heard);
                    // Opening a stream is no success before something has come of it.
                    match self.open {
                        Some(_) => backoff = pauses(),
                        None => opens_at = Some(Clock::Boot.now().plus(backoff.next_pause())),
                    }
                }
                () = sleep_until(opens_at) => opens_at = None,
                () = sleep_until(silent_at) => self.give_up(),
            }
        }
    }

    fn obey(&mut self, order: Order) {
        let request = match order {
            Order::Watch(number, watch) => {
                self.watches.insert(number, watch);
                Request::Watch(number)
            }
            Order::Forget(number) if self.watches.remove(&number).is_some() => {
                Request::Cancel(number)
            }
            Order::Forget(_) => return,
        };
        if let Some(open) = &mut self.open {
            // Before those that begin anew: somebody waits for this one just now.
            open.outbox.push_front(request);
        }
    }

    /// Opens the stream with one of the watches; the others follow, each from where it had come.
    async fn reopen(&mut self) -> Result<()> {
        let mut outbox: VecDeque<i64> = self.watches.keys().copied().collect();
        let Some(first) = outbox.pop_front() else {
            return Ok(());
        };
        let Some(connection) = self.link.within(LIMIT, self.link.connection()).await else {
            return Err(no_answer(LIMIT));
        };
        let connection = connection?;
        let (key, options) = self.watches[&first].options(first);
        let mut client = connection.client.watch_client();
        let opening = Box::pin(client.watch(key, Some(options)));
        let (requests, answers) = match self.link.within(LIMIT, opening).await {
            Some(Ok(stream)) => stream.split(),
            Some(Err(error)) => return Err(self.link.failed(&connection, error).into()),
            None => {
                self.link.give_up(&connection);
                return Err(no_answer(LIMIT));
            }
        };
        self.open = Some(Open {
            connection,
            requests,
            answers,
            outbox: outbox.into_iter().map(Request::Watch).collect(),
            unanswered: HashSet::from([first]),
            heard: Clock::Boot.now(),
        });
        Ok(())
    }

    /// Has the stream opened anew, with another member if there is one.
    fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            tracing::debug!("the stream of watches is silent, and opened again");
            self.link.give_up(&open.connection);
        }
    }

    fn hear(&mut self, heard: Heard) {
        let Some(open) = &mut self.open else {
            return;
        };
        match heard {
            Heard::Sent => open.note_sent(),
            Heard::Answer(answer) => {
                open.heard = Clock::Boot.now();
                open.unanswered.remove(&answer.watch_id());
                self.note(&answer);
            }
            Heard::End(why) => {
                tracing::debug!(why, "the stream of watches is opened again");
                self.open = None;
            }
        }
    }

    fn note(&mut self, answer: &WatchResponse) {
        let number = answer.watch_id();
        if answer.canceled() {
            match self.watches.remove(&number) {
                // What it would tell next has been compacted, or may not be told to us.
                Some(watch) => (watch.tell)(News::Missed),
                // It was forgotten, or the server does not say which one it means.
                None if number >= 0 => {}
                // Perhaps its login is outdated, and that of a new connection is not.
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
        // A member that lags behind also tells of those that had the same key before.
        let untold = watch.from.load(Ordering::Relaxed);
        let is_untold = |found: &&KeyValue| found.mod_revision() >= untold;
        for event in answer.events() {
            let Some(found) = event.kv().filter(is_untold) else {
                continue;
            };
            let now = found.mod_revision();
            watch.from.fetch_max(now + 1, Ordering::Relaxed);
            if event.event_type() == EventType::Delete {
                (watch.tell)(News::Gone(found.key().to_vec(), now));
            }
        }
    }
}

impl Open {
    /// The next request, unless the server is to answer first.
    fn next(&mut self, watches: &HashMap<i64, Watch>) -> Option<Request> {
        while let Some(Request::Watch(number)) = self.outbox.front() {
            if watches.contains_key(number) {
                break;
            }
            // It was forgotten before it was asked for on this stream.
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
                self.heard = Clock::Boot.now();
            }
            self.unanswered.insert(number);
        }
    }

    /// From when on its silence is no slowness, if it owes an answer.
    fn silent_at(&self) -> Option<Moment> {
        let owes = !self.unanswered.is_empty();
        owes.then(|| self.heard.plus(SILENCE_LIMIT))
    }
}

impl Watch {
    /// From the revision after `now` on the server tells of everything, also over a stream that is opened
    /// anew.
    fn began_after(&mut self, now: i64) {
        self.skips = false;
        if self.from.fetch_max(now + 1, Ordering::Relaxed) <= now {
            (self.tell)(News::Behind);
        }
    }

    fn options(&self, number: i64) -> (Vec<u8>, WatchOptions) {
        let from = self.from.load(Ordering::Relaxed);
        let begins = if self.skips { NOW } else { from };
        let options = WatchOptions::new()
            .with_watch_id(number)
            .with_start_revision(begins)
            .with_filters([WatchFilterType::NoPut]);
        match &self.watched {
            Watched::Key(key) => (key.clone(), options),
            Watched::Below(prefix) => (prefix.clone().into(), options.with_range(end_of(prefix))),
        }
    }
}

enum Heard {
    /// The next request has been sent.
    Sent,
    Answer(WatchResponse),
    End(&'static str),
}

/// Sends the next request, or waits for an answer, whichever can be done first: a server that waits for us
/// to read must not have to read from us first.
async fn next_event(open: &mut Option<Open>, watches: &HashMap<i64, Watch>) -> Heard {
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
            Ok(Some(answer)) => Heard::Answer(answer),
            Ok(None) => Heard::End("the server has ended it"),
            Err(error) => {
                tracing::debug!(%error, "the stream of watches has broken");
                Heard::End("it has broken")
            }
        },
        sent = sending => match sent {
            Ok(()) => Heard::Sent,
            Err(_) => Heard::End("it takes no more requests"),
        },
        // A member that is stopped ends nothing.
        () = open.connection.is_given_up() => Heard::End("its connection was given up"),
    }
}

async fn sleep_until(moment: Option<Moment>) {
    match moment {
        Some(moment) => Clock::Boot.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
