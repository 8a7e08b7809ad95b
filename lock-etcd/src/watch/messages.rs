//! The messages between a client and the task that watches keys for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use etcd_client::{KeyValue, WatchFilterType, WatchOptions};

use crate::keys::end_of;

/// The start revision that means the next write.
const NOW: i64 = 0;

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// This key was deleted, in this revision.
    Deleted(Vec<u8>, i64),
    /// This single key was written, not deleted.
    Written(Box<KeyValue>),
    /// A write came before the watch began, and is not reported.
    Stale,
    /// Events were lost, and no more will be reported.
    Lost,
}

/// The keys that are to be watched.
#[derive(Clone, Debug)]
pub(crate) enum WatchedKeys {
    Key(Vec<u8>),
    /// All keys that begin with this prefix, which ends with a slash. Only deletions are reported.
    Below(String),
}

pub(crate) type EventHandler = Box<dyn Fn(WatchEvent) + Send + Sync>;

/// A command for the task.
pub(crate) enum WatchCommand {
    Watch(i64, KeyWatch),
    Forget(i64),
}

/// The task's side of a watch.
pub(crate) struct KeyWatch {
    pub(crate) watched: WatchedKeys,
    /// The first revision whose events have not been reported.
    pub(crate) from: Arc<AtomicI64>,
    /// True if writes before the watch began are left out.
    pub(crate) skips: bool,
    pub(crate) tell: EventHandler,
}

impl KeyWatch {
    /// Notes that the server reports all events after the revision `now`, also over a reopened
    /// stream.
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
            .with_start_revision(begins);
        match &self.watched {
            WatchedKeys::Key(key) => (key.clone(), options),
            WatchedKeys::Below(prefix) => {
                let options = options.with_filters([WatchFilterType::NoPut]);
                (prefix.clone().into(), options.with_range(end_of(prefix)))
            }
        }
    }
}
