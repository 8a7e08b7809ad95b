//! The messages between a client and the task that watches keys for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use etcd_client::{WatchFilterType, WatchOptions};

use crate::keys::end_of;

/// The revision of whatever is written next, as a server understands it.
const NOW: i64 = 0;

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
    pub(crate) watched: Watched,
    /// The first revision that has not been told about, and need be.
    pub(crate) from: Arc<AtomicI64>,
    /// True if what was written until it begins is left out.
    pub(crate) skips: bool,
    pub(crate) tell: Tell,
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
