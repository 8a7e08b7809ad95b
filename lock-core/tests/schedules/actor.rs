//! Tasks of the application, which take and release locks in the simulated world.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LockGuard, LockKey, LockRequest, Mode, Result, Wait};
use tokio::time::sleep;

use crate::clock::ProcessClock;
use crate::observer::{Entry, Observer};

/// A task of the application.
pub(crate) struct Actor {
    pub(crate) process: usize,
    /// Number of its client.
    pub(crate) line: usize,
    pub(crate) clock: ProcessClock,
    pub(crate) locks: Arc<dyn DistributedLock>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) habits: Habits,
    pub(crate) rng: Rng,
}

/// Parameters of the tasks of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    pub(crate) rounds: u32,
    pub(crate) keys: u32,
    pub(crate) ttl: Duration,
    /// True if some requests ask for twice the ttl.
    pub(crate) ttls_differ: bool,
    /// True if some requests limit the time of the hold.
    pub(crate) max_hold: bool,
    /// True if some requests have a minimum hold.
    pub(crate) min_hold: bool,
    /// True if some requests are shared or for permits.
    pub(crate) modes: bool,
    /// True if some tasks lead, take several keys, or enter their own locks.
    pub(crate) layers: bool,
    /// Maximum time of a usual hold; one hold in five lasts longer.
    pub(crate) work: Duration,
}

impl Habits {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        Self {
            rounds: 3,
            keys: rng.u32(1..3),
            ttl: Duration::from_millis(rng.u64(60..150)),
            ttls_differ: rng.bool(),
            max_hold: rng.u32(..4) == 0,
            min_hold: rng.u32(..4) == 0,
            modes: false,
            layers: false,
            work: Duration::from_millis(rng.u64(1..12)),
        }
    }
}

impl Actor {
    /// Takes and releases locks, for some rounds or until the client is shut down.
    pub(crate) async fn act(mut self) {
        for _ in 0..self.habits.rounds {
            if self.rng.bool() {
                let pause = self.some(self.habits.work * 2);
                sleep(pause).await;
            }
            let layer = self.habits.layers.then(|| self.rng.u32(..6));
            let done = match layer {
                Some(0) => self.lead().await,
                Some(1) => self.take_several().await,
                Some(2) => self.reenter().await,
                _ => self.take_one().await,
            };
            if done.is_break() {
                return;
            }
        }
    }

    async fn take_one(&mut self) -> ControlFlow<()> {
        let request = self.request();
        let observer = Arc::clone(&self.observer);
        let ticket = observer.arrives(self.line, &request);
        observer.tell(format!(
            "{} asks for {} ({:?})",
            self.line, request.key, request.mode
        ));
        let outcome = self.locks.acquire(request).await;
        let Some(guard) = self.granted(outcome)? else {
            return ControlFlow::Continue(());
        };
        let entry = observer.granted(self.process, &self.clock, &ticket, &guard);
        drop(ticket);
        self.hold(guard, entry).await;
        ControlFlow::Continue(())
    }

    /// Returns what was granted, if anything was; breaks off after the shutdown of the client.
    pub(crate) fn granted<T>(&self, outcome: Result<Option<T>>) -> ControlFlow<(), Option<T>> {
        match outcome {
            Ok(granted) => ControlFlow::Continue(granted),
            Err(error) if error.kind() == ErrorKind::Closed => ControlFlow::Break(()),
            Err(error) => {
                assert!(!self.observer.promises().calm, "{error}");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                ControlFlow::Continue(None)
            }
        }
    }

    pub(crate) fn some(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    pub(crate) fn request(&mut self) -> LockRequest {
        let Habits { ttl, keys, .. } = self.habits;
        let key = LockKey::new(format!("key/{}", self.rng.u32(..keys))).expect("a key");
        let mode = match self.rng.u32(..6) {
            0 | 1 if self.habits.modes => Mode::Shared,
            2 | 3 if self.habits.modes => Mode::permit(self.rng.u32(1..4)).expect("one at least"),
            _ => Mode::Exclusive,
        };
        let wait = match self.rng.u32(..8) {
            0 => Wait::No,
            1 | 2 => Wait::within(self.some(ttl)),
            _ => Wait::Forever,
        };
        let differs = self.habits.ttls_differ && self.rng.u32(..4) == 0;
        let mut request = LockRequest::new(key, mode)
            .with_ttl(if differs { ttl * 2 } else { ttl })
            .with_wait(wait);
        if self.habits.max_hold && self.rng.bool() {
            request = request.holding_at_most(ttl / 2 + self.some(ttl));
        }
        if self.habits.min_hold && self.rng.u32(..3) == 0 {
            request = request.holding_at_least(self.some(ttl * 2));
        }
        request
    }

    pub(crate) async fn hold(&mut self, guard: LockGuard, entry: Entry) {
        let work = match self.rng.u32(..5) {
            0 => self.some(self.habits.ttl * 2),
            _ => self.some(self.habits.work),
        };
        tokio::select! {
            biased;
            reason = guard.lost() => {
                self.observer.is_told(&entry, reason);
                assert!(!guard.is_held(), "lost ({reason}), and held");
                // Some holders do not stop at once.
                sleep(self.some(self.habits.work)).await;
            }
            () = sleep(work) => {}
        }
        let observer = Arc::clone(&self.observer);
        match self.rng.u32(..4) {
            // Drop the entry first, as a drop of this future does.
            0 => drop((entry, guard)),
            1 => {
                // Polled once only.
                let release = pin!(release(observer, guard, entry));
                let _outcome = release.poll(&mut Context::from_waker(Waker::noop()));
            }
            _ => release(observer, guard, entry).await,
        }
    }
}

async fn release(observer: Arc<Observer>, guard: LockGuard, entry: Entry) {
    let number = guard.token().value() >> 14;
    let (was_held, is_shared) = (guard.is_held(), entry.is_shared);
    drop(entry);
    match guard.release().await {
        Ok(released) => {
            let is_released = released == Released::Released;
            observer.assert_released(number, [was_held, is_shared], is_released);
        }
        Err(error) => {
            assert!(!observer.promises().calm, "{error}");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    }
}
