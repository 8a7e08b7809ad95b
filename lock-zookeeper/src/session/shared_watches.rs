//! Watches that waiters of a session share: one on the server for each claim.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use crate::error::DriverResult;
use crate::session::connection::SessionConnection;
use lock_core::backend::Mutex;

/// The number of paths from which on unused ones are removed.
const SWEEP_MIN: usize = 64;

/// The change of a watched claim.
pub(crate) type Change = Shared<BoxFuture<'static, ()>>;

/// A watch that is requested or open. It ends with its last handle.
pub(crate) type Watching = Shared<BoxFuture<'static, DriverResult<Option<ClaimWatch>>>>;

/// A claim that is watched.
#[derive(Clone)]
pub(crate) struct ClaimWatch {
    /// The number of its changes before the watch.
    pub(crate) changes: i32,
    /// True for an ephemeral node, as claims are.
    pub(crate) is_ephemeral: bool,
    pub(crate) changed: Change,
}

/// The watches of one session.
#[derive(Default)]
pub(crate) struct SharedWatches(Mutex<WatchedPaths>);

#[derive(Default)]
struct WatchedPaths {
    watching: HashMap<String, WeakShared<BoxFuture<'static, DriverResult<Option<ClaimWatch>>>>>,
    sweep_at: usize,
}

impl SharedWatches {
    /// Watches the claim at `path`, or joins an open watch of it; resolves to `None` if the claim
    /// is gone.
    pub(crate) fn watch(&self, link: &Arc<SessionConnection>, path: &str) -> Watching {
        let mut paths = self.0.lock();
        let known = paths.watching.get(path).and_then(WeakShared::upgrade);
        if let Some(watching) = known.filter(is_open) {
            return watching;
        }
        if paths.watching.len() >= paths.sweep_at {
            paths.watching.retain(|_, known| known.upgrade().is_some());
            paths.sweep_at = SWEEP_MIN.max(2 * paths.watching.len());
        }
        let watching = watch(Arc::clone(link), path.to_owned()).boxed().shared();
        if let Some(weak) = watching.downgrade() {
            paths.watching.insert(path.to_owned(), weak);
        }
        watching
    }
}

/// Returns true until the watch has reported a change.
fn is_open(watching: &Watching) -> bool {
    match watching.peek() {
        None => true,
        Some(Ok(Some(watched))) => watched.changed.peek().is_none(),
        Some(Ok(None) | Err(_)) => false,
    }
}

async fn watch(link: Arc<SessionConnection>, path: String) -> DriverResult<Option<ClaimWatch>> {
    let connection = link.current()?;
    let asking = connection.client().check_and_watch_stat(&path);
    let (stat, watcher) = connection.answer(asking).await?;
    let watcher = connection.watcher(watcher);
    let Some(stat) = stat else { return Ok(None) };
    let changed = async move {
        // A change, or the end of the connection: the waiter looks again in either case.
        let _event = watcher.changed().await;
    };
    Ok(Some(ClaimWatch {
        changes: stat.version,
        is_ephemeral: stat.ephemeral_owner != 0,
        changed: changed.boxed().shared(),
    }))
}

impl fmt::Debug for SharedWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWatches").finish_non_exhaustive()
    }
}
