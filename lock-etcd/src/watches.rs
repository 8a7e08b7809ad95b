//! One stream by which servers tell a client that keys have gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use etcd_client::{
    EventType, KeyValue, WatchFilterType, WatchOptions, WatchRequestSender, WatchResponse,
    WatchResponseStream,
};
use lock_core::{Backoff, Clock, Moment, Result};
use tokio::sync::mpsc;

use crate::error::{no_answer, runtime_gone, unavailable};
use crate::layout::end_of;
use crate::link::{Connection, Link};

/// How long the stream may take to open, and to accept another watch.
const LIMIT: Duration = Duration::from_secs(1);

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
    /// This key has gone.
    Gone(Vec<u8>),
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
    /// The first revision that has not been told about.
    from: i64,
    /// Whether what was written until it begins is left out.
    skips: bool,
    tell: Tell,
}

/// A watch; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Subscription {
    number: i64,
    orders: mpsc::UnboundedSender<Order>,
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
        let watch = Watch {
            watched,
            from,
            skips,
            tell,
        };
        let order = Order::Watch(number, watch);
        self.orders.send(order).map_err(|_| runtime_gone())?;
        Ok(Subscription {
            number,
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
}

impl Watching {
    /// Until nobody can order anything any more.
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let pauses = || Backoff::new(Duration::from_millis(10), LIMIT);
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
            // Each arm is cancel safe: what was not received stays for the next turn.
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => return,
                },
                answer = next_answer(&mut self.open) => {
                    self.hear(answer);
                    // Opening a stream is no success before something has come of it.
                    match self.open {
                        Some(_) => backoff = pauses(),
                        None => opens_at = Some(Clock::Boot.now().plus(backoff.next_pause())),
                    }
                }
                () = sleep_until(opens_at) => opens_at = None,
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        let request = match order {
            Order::Watch(number, watch) => {
                let options = watch.options(number);
                self.watches.insert(number, watch);
                Request::Watch(options)
            }
            Order::Forget(number) if self.watches.remove(&number).is_some() => {
                Request::Cancel(number)
            }
            Order::Forget(_) => return,
        };
        if let Some(open) = &mut self.open
            && !send(&self.link, &mut open.requests, request).await
        {
            self.open = None;
        }
    }

    /// Opens the stream with all watches, each from where it had come.
    async fn reopen(&mut self) -> Result<()> {
        let Some(connection) = self.link.within(LIMIT * 2, self.link.connection()).await else {
            return Err(no_answer(LIMIT * 2));
        };
        let connection = connection?;
        let watches: Vec<(Vec<u8>, WatchOptions)> = self
            .watches
            .iter()
            .map(|(number, watch)| watch.options(*number))
            .collect();
        let mut watches = watches.into_iter();
        let Some((key, options)) = watches.next() else {
            return Ok(());
        };
        let mut client = connection.client.watch_client();
        let opening = Box::pin(client.watch(key, Some(options)));
        let (mut requests, answers) = match self.link.within(LIMIT, opening).await {
            Some(Ok(stream)) => stream.split(),
            Some(Err(error)) => return Err(self.link.failed(&connection, error).into()),
            None => {
                self.link.give_up(&connection);
                return Err(no_answer(LIMIT));
            }
        };
        for options in watches {
            if !send(&self.link, &mut requests, Request::Watch(options)).await {
                return Err(unavailable("the server takes no more watches".to_owned()));
            }
        }
        self.open = Some(Open {
            connection,
            requests,
            answers,
        });
        Ok(())
    }

    fn hear(&mut self, heard: Heard) {
        let answer = match heard {
            Heard::Answer(answer) => answer,
            Heard::End(why) => {
                tracing::debug!(why, "the stream of watches is opened again");
                self.open = None;
                return;
            }
        };
        let number = answer.watch_id();
        if answer.canceled() {
            match self.watches.remove(&number) {
                // What it would tell next has been compacted, or may not be told to us.
                Some(watch) => (watch.tell)(News::Missed),
                // It was forgotten, or the server does not say which one it means.
                None if number >= 0 => {}
                // Perhaps its login is outdated, and that of a new connection is not.
                None => {
                    if let Some(open) = self.open.take() {
                        self.link.give_up(&open.connection);
                    }
                }
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
        let untold = watch.from;
        let is_untold = |found: &&KeyValue| found.mod_revision() >= untold;
        for event in answer.events() {
            let Some(found) = event.kv().filter(is_untold) else {
                continue;
            };
            watch.from = watch.from.max(found.mod_revision() + 1);
            if event.event_type() == EventType::Delete {
                (watch.tell)(News::Gone(found.key().to_vec()));
            }
        }
    }
}

impl Watch {
    /// From the revision after `now` on the server tells of everything, also over a stream that is opened
    /// anew.
    fn began_after(&mut self, now: i64) {
        self.skips = false;
        if now >= self.from {
            self.from = now + 1;
            (self.tell)(News::Behind);
        }
    }

    fn options(&self, number: i64) -> (Vec<u8>, WatchOptions) {
        let begins = if self.skips { NOW } else { self.from };
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

enum Request {
    Watch((Vec<u8>, WatchOptions)),
    Cancel(i64),
}

/// Sends a request on the stream; whether that took it in time.
async fn send(link: &Link, requests: &mut WatchRequestSender, request: Request) -> bool {
    let sending = async {
        match request {
            Request::Watch((key, options)) => requests.watch(key, Some(options)).await,
            Request::Cancel(number) => requests.cancel(number).await,
        }
    };
    matches!(link.within(LIMIT, sending).await, Some(Ok(())))
}

enum Heard {
    Answer(WatchResponse),
    End(&'static str),
}

async fn next_answer(open: &mut Option<Open>) -> Heard {
    let Some(open) = open else {
        return std::future::pending().await;
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
