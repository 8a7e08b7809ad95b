//! The connections of a client for one purpose: one for each runtime that they are needed on.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use lock_core::{KeeperHome, Result};
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use crate::link::{Link, Terms, locked};

/// One connection a runtime, so that nobody depends on a runtime that somebody else may have stopped
/// driving.
pub(crate) struct Lanes {
    terms: Terms,
    /// Whose runtime it is about: the caller's, for requests that somebody waits for, or the keeper's.
    home: KeeperHome,
    lanes: Mutex<HashMap<Id, Lane>>,
    /// Its end tells the tasks that stand for the runtimes that nobody asks for them any more.
    in_use: watch::Sender<()>,
}

struct Lane {
    link: Arc<Link>,
    /// Gone with the runtime, whose number another one may get then.
    runtime: Weak<()>,
}

impl Lanes {
    pub(crate) fn new(terms: Terms, home: KeeperHome) -> Self {
        Self {
            terms,
            home,
            lanes: Mutex::default(),
            in_use: watch::Sender::new(()),
        }
    }

    /// The lane of the runtime that this is about now.
    pub(crate) fn here(&self) -> Result<Arc<Link>> {
        let runtime = self.home.handle()?;
        let mut lanes = locked(&self.lanes);
        if let Some(lane) = lanes.get(&runtime.id())
            && lane.is_alive()
        {
            return Ok(Arc::clone(&lane.link));
        }
        lanes.retain(|_, lane| lane.is_alive());
        let link = Link::new(self.terms.clone(), runtime.clone());
        let lane = Lane {
            link: Arc::clone(&link),
            runtime: self.stand_for(&runtime),
        };
        lanes.insert(runtime.id(), lane);
        Ok(link)
    }

    /// The lane of a runtime, if there is one and it has not been shut down.
    pub(crate) fn of(&self, runtime: Id) -> Option<Arc<Link>> {
        let lanes = locked(&self.lanes);
        let lane = lanes.get(&runtime).filter(|lane| lane.is_alive())?;
        Some(Arc::clone(&lane.link))
    }

    /// Something that lives as long as `runtime` does.
    fn stand_for(&self, runtime: &Handle) -> Weak<()> {
        let alive = Arc::new(());
        let standing = Arc::downgrade(&alive);
        let mut in_use = self.in_use.subscribe();
        runtime.spawn(async move {
            let _alive = alive;
            // Nothing is ever sent: it only ends.
            while in_use.changed().await.is_ok() {}
        });
        standing
    }
}

impl Lane {
    fn is_alive(&self) -> bool {
        self.runtime.strong_count() > 0
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes")
            .field("runtimes", &locked(&self.lanes).len())
            .finish_non_exhaustive()
    }
}
