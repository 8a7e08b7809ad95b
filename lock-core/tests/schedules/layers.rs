//! Tasks that lead, hold several keys, or enter their own locks.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use lock_core::backend::{Keeper, async_trait};
use lock_core::{
    Capabilities, DistributedLock, DistributedLockExt, Election, HoldWatch, LockGuard, LockKey,
    LockRequest, Mode, Owner, Result, Wait,
};
use tokio::time::sleep;

use crate::actor::Actor;
use crate::clock::ProcessClock;
use crate::held;
use crate::observer::{Entry, Observer};

/// A client whose grants the observer sees, also those that a layer makes.
#[derive(Clone, Debug)]
struct Observed {
    process: usize,
    line: usize,
    clock: ProcessClock,
    locks: Arc<dyn DistributedLock>,
    observer: Arc<Observer>,
    /// True if the grants are parts of a set.
    is_set: bool,
    entries: Entries,
}

/// The grants that the layer has, in the order in which they were made.
#[derive(Clone, Debug, Default)]
struct Entries(Arc<Mutex<Vec<(LockKey, Entry)>>>);

impl Entries {
    /// Notes that the layer is about to release all of its grants.
    fn clear(&self) {
        let entries = std::mem::take(&mut *held(&self.0));
        drop(entries);
    }
}

/// Clears the entries when it is dropped.
struct Clears(Entries);

impl Drop for Clears {
    fn drop(&mut self) {
        self.0.clear();
    }
}

#[async_trait]
impl DistributedLock for Observed {
    fn capabilities(&self) -> Capabilities {
        self.locks.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        self.locks.keeper()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let is_key = |(key, _): &(LockKey, Entry)| *key == request.key;
        if held(&self.entries.0).iter().any(is_key) {
            // A set that lost one of its keys begins anew.
            self.entries.clear();
        }
        let ticket = self.observer.arrives(self.line, &request);
        let granted = self.locks.acquire(request).await?;
        if let Some(guard) = &granted {
            let observer = &self.observer;
            let entry = observer.granted(self.process, &self.clock, &ticket, guard);
            observer.is_of_layer(&entry, self.is_set);
            held(&self.entries.0).push((guard.key().clone(), entry));
        }
        Ok(granted)
    }
}

impl Actor {
    fn observed(&self, is_set: bool) -> Observed {
        Observed {
            process: self.process,
            line: self.line,
            clock: self.clock.clone(),
            locks: Arc::clone(&self.locks),
            observer: Arc::clone(&self.observer),
            is_set,
            entries: Entries::default(),
        }
    }

    /// Leads until its work is done. The observer asserts that the work ends with its term.
    pub(crate) async fn lead(&mut self) -> ControlFlow<()> {
        let observed = self.observed(false);
        let entries = observed.entries.clone();
        let _clears = Clears(entries.clone());
        let key = self.request().key;
        self.observer
            .tell(format!("{} is to lead {key}", self.line));
        let election = Election::new(Arc::new(observed), key.as_str()).expect("a key");
        let election = election.with_ttl(self.habits.ttl);
        let margin = self.some(self.habits.ttl / 4);
        // A term may be too short for the work, so that of later terms takes no time.
        let mut time = match self.rng.u32(..3) {
            0 => self.some(self.habits.ttl * 2),
            _ => self.some(self.habits.work),
        };
        let work = |_term| {
            let clears = Clears(entries.clone());
            let time = std::mem::take(&mut time);
            async move {
                let _clears = clears;
                sleep(time).await;
            }
        };
        let led = election.with_step_down_margin(margin).lead(work).await;
        self.granted(led.map(Some))?;
        ControlFlow::Continue(())
    }

    /// Takes several keys together.
    pub(crate) async fn take_several(&mut self) -> ControlFlow<()> {
        let observed = self.observed(true);
        let entries = observed.entries.clone();
        let _clears = Clears(entries.clone());
        let keys = (0..self.habits.keys).rev();
        let requests = keys.map(|key| {
            let key = LockKey::new(format!("key/{key}")).expect("a key");
            LockRequest::new(key, Mode::Exclusive).with_ttl(self.habits.ttl)
        });
        let requests: Vec<LockRequest> = requests.collect();
        let wait = match self.rng.u32(..3) {
            0 => Wait::within(self.some(self.habits.ttl)),
            1 => Wait::No,
            _ => Wait::Forever,
        };
        let count = requests.len();
        self.observer
            .tell(format!("{} asks for {count} keys ({wait:?})", self.line));
        let outcome = observed.acquire_all(requests, wait).await;
        let Some(set) = self.granted(outcome)? else {
            return ControlFlow::Continue(());
        };
        assert!(set.is_held(), "a set without one of its locks");
        for (key, entry) in &*held(&entries.0) {
            assert!(set.token(key.as_str()).is_some(), "{key} is not in the set");
            self.observer.is_of_layer(entry, false);
        }
        tokio::select! {
            biased;
            (key, reason) = set.lost() => {
                let entries = held(&entries.0);
                let (_, entry) = entries.iter().find(|(one, _)| one == key).expect("its key");
                self.observer.is_told(entry, reason);
                assert!(!set.is_held(), "lost ({reason}), and held");
            }
            () = sleep(self.some(self.habits.work)) => {}
        }
        entries.clear();
        let released = if self.rng.bool() {
            set.release().await.map(|_| Some(()))
        } else {
            Ok(None)
        };
        self.granted(released)?;
        ControlFlow::Continue(())
    }

    /// Enters its own lock. The two guards end in any order.
    pub(crate) async fn reenter(&mut self) -> ControlFlow<()> {
        let owner = Owner::new();
        let observer = Arc::clone(&self.observer);
        let mut request = self.request().for_owner(&owner);
        (request.max_hold, request.min_hold) = (None, None);
        let ticket = observer.arrives(self.line, &request);
        observer.tell(format!("{} enters {} twice", self.line, request.key));
        let outcome = self.locks.acquire(request.clone()).await;
        let Some(outer) = self.granted(outcome)? else {
            return ControlFlow::Continue(());
        };
        let mut entry = observer.granted(self.process, &self.clock, &ticket, &outer);
        drop(ticket);
        if !outer.is_held() {
            self.hold(outer, entry).await;
            return ControlFlow::Continue(());
        }
        let inner = self.enter(request, &outer);
        let (last, first) = match self.rng.bool() {
            true => (inner, outer),
            false => (outer, inner),
        };
        observer.continues(&mut entry, last.watch());
        drop(first);
        assert!(last.is_held(), "the end of one guard ends the grant");
        self.hold(last, entry).await;
        ControlFlow::Continue(())
    }

    /// Enters the grant of `outer`, without a request to the store.
    fn enter(&self, request: LockRequest, outer: &LockGuard) -> LockGuard {
        let mut entering = pin!(self.locks.acquire(request));
        let entered = entering
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(Some(inner))) = entered else {
            panic!("an owner waits for its own lock: {entered:?}");
        };
        assert_eq!(inner.token(), outer.token());
        inner
    }
}

impl Observer {
    /// Notes that a layer has made the grant, and whether the other keys of its set are still to be
    /// taken.
    pub(crate) fn is_of_layer(&self, entry: &Entry, is_partial: bool) {
        let mut book = held(&self.book);
        let mut grants = book.grants.iter_mut();
        let grant = grants.find(|grant| grant.entry == entry.number);
        let grant = grant.expect("it is held");
        (grant.is_partial, grant.late_checks) = (is_partial, 1);
    }

    /// Notes that a grant lives on in another guard.
    pub(crate) fn continues(&self, entry: &mut Entry, watch: HoldWatch) {
        entry.is_shared = true;
        let mut book = held(&self.book);
        let mut grants = book.grants.iter_mut();
        let grant = grants.find(|grant| grant.entry == entry.number);
        grant.expect("it is held").watch = watch;
    }
}
