//! A value that exists once per runtime.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use crate::Result;
use crate::backend::KeeperRuntime;
use crate::mutex::Mutex;

/// One `T` per runtime, such as a connection, so that no caller depends on another's runtime.
///
/// A runtime may stop being driven at any time.
///
/// ```
/// use std::sync::Arc;
/// use lock_core::backend::{KeeperRuntime, PerRuntime};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let connections = PerRuntime::new(KeeperRuntime::caller(), |_| Arc::new(String::from("open")));
/// assert!(Arc::ptr_eq(&connections.current()?, &connections.current()?));
/// # Ok(())
/// # }
/// ```
pub struct PerRuntime<T> {
    make: Make<T>,
    /// Selects the runtime of [`current`](Self::current): the caller's, for requests that a caller waits
    /// for, or the keeper's.
    keeper_runtime: KeeperRuntime,
    entries: Arc<RuntimeEntries<T>>,
    /// Dropped with this value, which ends the tasks that `watch_end` spawned.
    in_use: watch::Sender<()>,
}

type Make<T> = Box<dyn Fn(&Handle) -> Arc<T> + Send + Sync>;
type RuntimeEntries<T> = Mutex<HashMap<Id, RuntimeEntry<T>>>;

struct RuntimeEntry<T> {
    value: Arc<T>,
    /// Dead once the runtime is gone, whose id another runtime may then get.
    runtime: Weak<()>,
}

/// Lives in a task of the runtime, and removes the runtime's entry when it is dropped.
struct RuntimeGuard<T> {
    runtime: Id,
    alive: Arc<()>,
    entries: Weak<RuntimeEntries<T>>,
}

impl<T: Send + Sync + 'static> PerRuntime<T> {
    /// Creates values by `make`, on first use on each runtime.
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

    /// Returns the value of the present runtime, the caller's or the keeper's.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) if the caller's runtime is selected and there is none.
    pub fn current(&self) -> Result<Arc<T>> {
        Ok(self.on(&self.keeper_runtime.handle()?))
    }

    /// Returns the value of `runtime`.
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
        // Unlock first: a runtime that is shut down drops the task below at once, which removes the
        // entry.
        drop(entries);
        drop(replaced);
        self.watch_end(runtime, guard);
        value
    }

    /// Returns the value of `runtime`, if it has one and has not been shut down.
    pub fn of(&self, runtime: Id) -> Option<Arc<T>> {
        let entries = self.entries.lock();
        let entry = entries.get(&runtime).filter(|entry| entry.is_alive())?;
        Some(Arc::clone(&entry.value))
    }

    fn watch_end(&self, runtime: &Handle, guard: RuntimeGuard<T>) {
        let mut in_use = self.in_use.subscribe();
        runtime.spawn(async move {
            let _guard = guard;
            // No value is ever sent; this loop ends when the sender is dropped.
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
        // Unlock first: the value's drop may call this type.
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
