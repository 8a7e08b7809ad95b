//! The watches of a client, which share a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use lock_core::Result;
use tokio::sync::mpsc;

use crate::connection::shared_connection::SharedConnection;
use crate::error::runtime_gone;
use crate::watch::messages::{EventHandler, KeyWatch, WatchCommand, WatchEvent, WatchedKeys};
use crate::watch::stream::WatchTask;

/// The handle of the watch task, which starts watches.
#[derive(Clone)]
pub(crate) struct Watches {
    commands: mpsc::UnboundedSender<WatchCommand>,
    numbers: Arc<AtomicI64>,
}

/// A watch; dropping it ends the watch.
pub(crate) struct Subscription {
    number: i64,
    from: Arc<AtomicI64>,
    commands: mpsc::UnboundedSender<WatchCommand>,
}

impl Subscription {
    /// Notes that the keys were seen in this revision. If the watch is opened again, it need not
    /// begin earlier, where the history may be compacted.
    pub(crate) fn seen(&self, revision: i64) {
        self.from.fetch_max(revision + 1, Ordering::Relaxed);
    }
}

impl Watches {
    /// Starts the task that watches over `connection`, on its runtime.
    pub(crate) fn over(connection: Arc<SharedConnection>) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let watching = WatchTask::over(Arc::clone(&connection));
        connection.runtime().spawn(watching.run(inbox));
        Self {
            commands,
            numbers: Arc::new(AtomicI64::new(1)),
        }
    }

    /// Reports each change of a `watched` key, from the revision `from` on.
    ///
    /// Reports may come late, above all for watches that have to catch up. No reports come while no
    /// server can be reached. So a waiter also looks without a report from time to time.
    pub(crate) fn watch_from(
        &self,
        from: i64,
        watched: WatchedKeys,
        tell: impl Fn(WatchEvent) + Send + Sync + 'static,
    ) -> Result<Subscription> {
        self.watch(watched, from, false, Box::new(tell))
    }

    /// Reports each change of a `watched` key from now on.
    ///
    /// The first report says whether the store is [stale](WatchEvent::Stale), that is, past the
    /// revision `known`. That report comes at once, while servers serve watches that have to catch
    /// up only ten times a second.
    pub(crate) fn watch_since(
        &self,
        known: i64,
        watched: WatchedKeys,
        tell: impl Fn(WatchEvent) + Send + Sync + 'static,
    ) -> Result<Subscription> {
        self.watch(watched, known + 1, true, Box::new(tell))
    }

    fn watch(
        &self,
        watched: WatchedKeys,
        from: i64,
        skips: bool,
        tell: EventHandler,
    ) -> Result<Subscription> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let from = Arc::new(AtomicI64::new(from));
        let watch = KeyWatch {
            watched,
            from: Arc::clone(&from),
            skips,
            tell,
        };
        let sent = self.commands.send(WatchCommand::Watch(number, watch));
        sent.map_err(|_| runtime_gone())?;
        Ok(Subscription {
            number,
            from,
            commands: self.commands.clone(),
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Without the task nothing is watched.
        let _unheard = self.commands.send(WatchCommand::Forget(self.number));
    }
}
