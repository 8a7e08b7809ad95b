//! One stream by which servers tell a client that keys have gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use etcd_client::{WatchFilterType, WatchOptions};
use lock_core::Result;
use tokio::sync::mpsc;

use crate::connection::shared::SharedConnection;
use crate::error::runtime_gone;
use crate::keys::end_of;
use crate::watch::stream::Watching;

/// The revision of whatever is written next, as a server understands it.
const NOW: i64 = 0;

/// Has keys watched.
#[derive(Clone, Debug)]
pub(crate) struct Watches {
    orders: mpsc::UnboundedSender<Command>,
    numbers: Arc<AtomicI64>,
}

/// The news about a watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchEvent {
    /// This key has gone, in this revision.
    Deleted(Vec<u8>, i64),
    /// Something had been written before the watch began, and what that was is not told.
    Stale,
    /// The news cannot be told any more; no more is told.
    Lost,
}

/// The keys that are to be watched.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    Key(Vec<u8>),
    /// Everything that begins with this, which ends with a slash.
    Below(String),
}

pub(crate) type Tell = Box<dyn Fn(WatchEvent) + Send + Sync>;

/// The next job of the task.
pub(crate) enum Command {
    Watch(i64, Watch),
    Forget(i64),
}

/// A watch, as the task knows it.
pub(crate) struct Watch {
    watched: Watched,
    /// The first revision that has not been told about, and need be.
    pub(crate) from: Arc<AtomicI64>,
    /// True if what was written until it begins is left out.
    pub(crate) skips: bool,
    pub(crate) tell: Tell,
}

/// A watch; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Subscription {
    number: i64,
    from: Arc<AtomicI64>,
    orders: mpsc::UnboundedSender<Command>,
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
    pub(crate) fn over(link: Arc<SharedConnection>) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let watching = Watching::over(Arc::clone(&link));
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
        tell: impl Fn(WatchEvent) + Send + Sync + 'static,
    ) -> Result<Subscription> {
        self.watch(watched, from, false, Box::new(tell))
    }

    /// Tells whenever one of the `watched` keys goes, from now on, and first whether the store is
    /// [behind](WatchEvent::Stale), since `known` was its revision. That is told at once: servers look only ten times
    /// a second for those who have to catch up.
    pub(crate) fn watch_since(
        &self,
        known: i64,
        watched: Watched,
        tell: impl Fn(WatchEvent) + Send + Sync + 'static,
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
        let order = Command::Watch(number, watch);
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
        let _unheard = self.orders.send(Command::Forget(self.number));
    }
}

impl Watch {
    /// From the revision after `now` on the server tells of everything, also over a stream that is opened
    /// anew.
    pub(crate) fn began_after(&mut self, now: i64) {
        self.skips = false;
        if self.from.fetch_max(now + 1, Ordering::Relaxed) <= now {
            (self.tell)(WatchEvent::Stale);
        }
    }

    pub(crate) fn options(&self, number: i64) -> (Vec<u8>, WatchOptions) {
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
