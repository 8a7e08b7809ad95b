//! What a client has once for each runtime.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use crate::sync::locked;
use crate::{KeeperHome, Result};

/// One `T` for each runtime that it is needed on, such as its connections: so that nobody depends on a
/// runtime that somebody else may have stopped driving.
pub struct PerRuntime<T> {
    make: Make<T>,
    /// Whose runtime it is about: the caller's, for requests that somebody waits for, or the keeper's.
    home: KeeperHome,
    entries: Mutex<HashMap<Id, Entry<T>>>,
    /// Its end tells the tasks that stand for the runtimes that nobody asks for them any more.
    in_use: watch::Sender<()>,
}

type Make<T> = Box<dyn Fn(&Handle) -> Arc<T> + Send + Sync>;

struct Entry<T> {
    value: Arc<T>,
    /// Gone with the runtime, whose number another one may get then.
    runtime: Weak<()>,
}

impl<T> PerRuntime<T> {
    /// Makes one with `make` on the runtime that `home` stands for, when it is first asked for there.
    pub fn new(home: KeeperHome, make: impl Fn(&Handle) -> Arc<T> + Send + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            home,
            entries: Mutex::default(),
            in_use: watch::Sender::new(()),
        }
    }

    /// That of the runtime that this is about now.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) at the caller's home when the caller is in no runtime.
    pub fn here(&self) -> Result<Arc<T>> {
        let runtime = self.home.handle()?;
        let mut entries = locked(&self.entries);
        if let Some(entry) = entries.get(&runtime.id())
            && entry.is_alive()
        {
            return Ok(Arc::clone(&entry.value));
        }
        entries.retain(|_, entry| entry.is_alive());
        let value = (self.make)(&runtime);
        let entry = Entry {
            value: Arc::clone(&value),
            runtime: self.stand_for(&runtime),
        };
        entries.insert(runtime.id(), entry);
        Ok(value)
    }

    /// That of `runtime`, if there is one and the runtime has not been shut down.
    pub fn of(&self, runtime: Id) -> Option<Arc<T>> {
        let entries = locked(&self.entries);
        let entry = entries.get(&runtime).filter(|entry| entry.is_alive())?;
        Some(Arc::clone(&entry.value))
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

impl<T> Entry<T> {
    fn is_alive(&self) -> bool {
        self.runtime.strong_count() > 0
    }
}

impl<T> fmt::Debug for PerRuntime<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerRuntime")
            .field("runtimes", &locked(&self.entries).len())
            .finish_non_exhaustive()
    }
}
