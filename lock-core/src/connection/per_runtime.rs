//! A value that a client has once for each runtime.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use crate::Result;
use crate::backend::KeeperRuntime;
use crate::mutex::Mutex;

/// One `T` for each runtime that it is needed on, such as its connections: so that no caller
/// depends on a runtime that another one may have stopped driving.
pub struct PerRuntime<T> {
    make: Make<T>,
    /// Whose runtime it is about: the caller's, for requests that a caller waits for, or the
    /// keeper's.
    keeper_runtime: KeeperRuntime,
    entries: Arc<RuntimeEntries<T>>,
    /// Its end tells the tasks that live on the runtimes that they are not needed any more.
    in_use: watch::Sender<()>,
}

type Make<T> = Box<dyn Fn(&Handle) -> Arc<T> + Send + Sync>;
type RuntimeEntries<T> = Mutex<HashMap<Id, RuntimeEntry<T>>>;

struct RuntimeEntry<T> {
    value: Arc<T>,
    /// Gone with the runtime, whose number another one may get then.
    runtime: Weak<()>,
}

/// Lives as long as a runtime does, and takes the entry out that is of it.
struct RuntimeGuard<T> {
    runtime: Id,
    alive: Arc<()>,
    entries: Weak<RuntimeEntries<T>>,
}

impl<T: Send + Sync + 'static> PerRuntime<T> {
    /// Makes one with `make` on the runtime of `keeper_runtime`, when it is first needed there.
    pub fn new(
        keeper_runtime: KeeperRuntime,
        make: impl Fn(&Handle) -> Arc<T> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: Box::new(make),
            keeper_runtime,
            entries: Arc::default(),
            in_use: watch::Sender::new(()),
        }
    }

    /// Returns that of the runtime that this is about now.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) on the caller's runtime when the caller is in no
    /// runtime.
    pub fn here(&self) -> Result<Arc<T>> {
        Ok(self.on(&self.keeper_runtime.handle()?))
    }

    /// Returns that of `runtime`.
    pub fn on(&self, runtime: &Handle) -> Arc<T> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&runtime.id())
            && entry.is_alive()
        {
            return Arc::clone(&entry.value);
        }
        let value = (self.make)(runtime);
        let guard = RuntimeGuard {
            runtime: runtime.id(),
            alive: Arc::default(),
            entries: Arc::downgrade(&self.entries),
        };
        let entry = RuntimeEntry {
            value: Arc::clone(&value),
            runtime: Arc::downgrade(&guard.alive),
        };
        let replaced = entries.insert(runtime.id(), entry);
        // A runtime that has been shut down drops its tasks at once, and with them the entry.
        drop(entries);
        drop(replaced);
        self.watch_end(runtime, guard);
        value
    }

    /// Returns that of `runtime`, if there is one and the runtime has not been shut down.
    pub fn of(&self, runtime: Id) -> Option<Arc<T>> {
        let entries = self.entries.lock();
        let entry = entries.get(&runtime).filter(|entry| entry.is_alive())?;
        Some(Arc::clone(&entry.value))
    }

    fn watch_end(&self, runtime: &Handle, guard: RuntimeGuard<T>) {
        let mut in_use = self.in_use.subscribe();
        runtime.spawn(async move {
            let _guard = guard;
            // Nothing is ever sent: it only ends.
            while in_use.changed().await.is_ok() {}
        });
    }
}

impl<T> RuntimeEntry<T> {
    fn is_alive(&self) -> bool {
        self.runtime.strong_count() > 0
    }
}

impl<T> Drop for RuntimeGuard<T> {
    fn drop(&mut self) {
        let Some(entries) = self.entries.upgrade() else {
            return;
        };
        let mut entries = entries.lock();
        let own = Arc::downgrade(&self.alive);
        let is_own = |entry: &RuntimeEntry<T>| entry.runtime.ptr_eq(&own);
        let gone = match entries.get(&self.runtime).is_some_and(is_own) {
            true => entries.remove(&self.runtime),
            false => None,
        };
        // What ends with it may ask here.
        drop(entries);
        drop(gone);
    }
}

impl<T> fmt::Debug for PerRuntime<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerRuntime")
            .field("runtimes", &self.entries.lock().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn each_runtime_has_its_own_until_it_ends() {
        let numbers = PerRuntime::new(KeeperRuntime::caller(), |runtime| Arc::new(runtime.id()));
        let [first, second] = [runtime(), runtime()];
        for runtime in [&first, &second, &first] {
            assert_eq!(*numbers.on(runtime.handle()), runtime.handle().id());
        }
        let (gone, kept) = (second.handle().id(), numbers.on(first.handle()));
        drop(second);
        assert_eq!(numbers.entries.lock().len(), 1, "nobody has asked since");
        assert!(numbers.of(gone).is_none());
        assert!(Arc::ptr_eq(&kept, &numbers.on(first.handle())));
    }

    #[test]
    fn a_runtime_that_has_ended_leaves_nothing() {
        let numbers = PerRuntime::new(KeeperRuntime::caller(), |runtime| Arc::new(runtime.id()));
        let ended = runtime();
        let handle = ended.handle().clone();
        drop(ended);
        assert_eq!(*numbers.on(&handle), handle.id());
        assert!(numbers.entries.lock().is_empty());
    }
}
