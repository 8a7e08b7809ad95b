//! One stream by which servers tell a client that keys have gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use lock_core::Result;
use tokio::sync::mpsc;

use crate::connection::shared::SharedConnection;
use crate::error::runtime_gone;
use crate::watch::messages::{Command, Tell, Watch, WatchEvent, Watched};
use crate::watch::stream::Watching;

/// Has keys watched.
#[derive(Clone, Debug)]
pub(crate) struct Watches {
    commands: mpsc::UnboundedSender<Command>,
    numbers: Arc<AtomicI64>,
}

/// A watch; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Subscription {
    number: i64,
    from: Arc<AtomicI64>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Subscription {
    /// Notes what was seen of the keys in this revision, so that the watch, should it begin anew, need not
    /// begin earlier, where history may be compacted.
    pub(crate) fn seen(&self, revision: i64) {
        self.from.fetch_max(revision + 1, Ordering::Relaxed);
    }
}

impl Watches {
    /// Watches over `connection`, in a task where that lives.
    pub(crate) fn over(connection: Arc<SharedConnection>) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let watching = Watching::over(Arc::clone(&connection));
        connection.runtime().spawn(watching.run(inbox));
        Self {
            commands,
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
        let sent = self.commands.send(Command::Watch(number, watch));
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
        // Without a task nothing is watched.
        let _unheard = self.commands.send(Command::Forget(self.number));
    }
}
