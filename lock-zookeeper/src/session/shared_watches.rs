//! Watches that the waiters of a session share: the server has at most one for each claim.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use lock_core::backend::Mutex;

use crate::error::DriverResult;
use crate::session::connection::SessionConnection;

/// The number of paths from which on unused paths are removed.
const SWEEP_MIN: usize = 64;

type Opening = BoxFuture<'static, DriverResult<Option<ClaimWatch>>>;

/// A watch that is requested or open. The watch ends when its last handle is dropped.
pub(crate) type SharedWatch = Shared<Opening>;

/// A watched claim.
#[derive(Clone)]
pub(crate) struct ClaimWatch {
    /// The number of changes of the node before the watch.
    pub(crate) changes: i32,
    /// True for an ephemeral node, as claims are.
    pub(crate) is_ephemeral: bool,
    /// Resolves at the next change of the node, or at the end of the connection.
    pub(crate) changed: Shared<BoxFuture<'static, ()>>,
}

/// The watches of one session.
#[derive(Default)]
pub(crate) struct SharedWatches(Mutex<WatchedPaths>);

#[derive(Default)]
struct WatchedPaths {
    watches: HashMap<String, WeakShared<Opening>>,
    sweep_at: usize,
}

impl SharedWatches {
    /// Watches the claim at `path`, or joins an open watch of it; resolves to `None` if the claim
    /// is gone.
    pub(crate) fn watch(&self, link: &Arc<SessionConnection>, path: &str) -> SharedWatch {
        let mut paths = self.0.lock();
        let known = paths.watches.get(path).and_then(WeakShared::upgrade);
        if let Some(shared) = known.filter(is_open) {
            return shared;
        }
        if paths.watches.len() >= paths.sweep_at {
            paths.watches.retain(|_, known| known.upgrade().is_some());
            paths.sweep_at = SWEEP_MIN.max(2 * paths.watches.len());
        }
        let shared = watch(Arc::clone(link), path.to_owned()).boxed().shared();
        if let Some(weak) = shared.downgrade() {
            paths.watches.insert(path.to_owned(), weak);
        }
        shared
    }
}

/// Returns true until the watch has reported a change.
fn is_open(shared: &SharedWatch) -> bool {
    match shared.peek() {
        None => true,
        Some(Ok(Some(watched))) => watched.changed.peek().is_none(),
        Some(Ok(None) | Err(_)) => false,
    }
}

async fn watch(link: Arc<SessionConnection>, path: String) -> DriverResult<Option<ClaimWatch>> {
    let (stat, watcher) = link.stat_and_watch(&path).await?;
    Ok(stat.map(|stat| ClaimWatch {
        changes: stat.version,
        is_ephemeral: stat.ephemeral_owner != 0,
        changed: watcher.changed().map(drop).boxed().shared(),
    }))
}
