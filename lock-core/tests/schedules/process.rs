//! A process of the simulated world: a runtime that does one step at a time.

use std::future::{Future, poll_fn};
use std::mem::replace;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use fastrand::Rng;
use tokio::runtime::{Builder, Runtime};

use crate::clock::{ProcessClock, Time};
use crate::held;

/// A process with the tasks of the application and of the library. The test polls any woken task of
/// the application, and tokio runs the library's tasks one by one.
pub(crate) struct Process {
    // Dropped first: a task may hold a guard.
    tasks: Vec<Task>,
    pub(crate) clock: ProcessClock,
    /// Waker that the runtime wakes when it has nothing to do.
    parking: Arc<Mutex<Option<Waker>>>,
    is_idle: bool,
    /// Time until which it is stalled.
    stalled_until: Time,
    /// Time of its next check of the timers.
    looks_at: Time,
    has_looked: bool,
    runtime: Runtime,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
    waker: Waker,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Process {
    /// Starts a process at `now`. Its clock shows `rate` seconds in 100.
    pub(crate) fn start(now: Time, rate: u32) -> Self {
        let parking = Arc::new(Mutex::new(None::<Waker>));
        let waiting = Arc::clone(&parking);
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            // Run one task, then return to the test.
            .event_interval(1)
            .on_thread_park(move || {
                held(&waiting).iter().for_each(Waker::wake_by_ref);
            })
            .build()
            .expect("a runtime");
        Self {
            tasks: Vec::new(),
            clock: ProcessClock::new(runtime.handle().clone(), now, rate),
            parking,
            is_idle: false,
            stalled_until: now,
            looks_at: now,
            has_looked: false,
            runtime,
        }
    }

    pub(crate) fn add(&mut self, task: impl Future<Output = ()> + 'static) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        self.tasks.push(Task {
            future: Box::pin(task),
            waker: Waker::from(Arc::clone(&woken)),
            woken,
        });
    }

    /// Returns the number of the application's tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the number of the library's tasks.
    pub(crate) fn background_tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }

    pub(crate) fn stall(&mut self, until: Time) {
        self.stalled_until = until;
    }

    pub(crate) fn is_stalled(&self, now: Time) -> bool {
        now < self.stalled_until
    }

    /// Returns true if it had nothing to do at the last check, and no task was woken since.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle && !self.tasks.iter().any(Task::is_woken)
    }

    /// Notes that a message has arrived.
    pub(crate) fn disturb(&mut self) {
        self.is_idle = false;
    }

    /// Returns the time of its next check of the timers.
    pub(crate) fn looks_at(&self) -> Time {
        self.looks_at.max(self.stalled_until)
    }

    /// Lets it check its timers now, and next at `next`.
    pub(crate) fn look(&mut self, next: Time) {
        self.is_idle = false;
        self.looks_at = next;
        self.has_looked = true;
    }

    /// Returns true if it has checked its timers since the last call.
    pub(crate) fn has_looked(&mut self) -> bool {
        replace(&mut self.has_looked, false)
    }

    /// Does a step: polls a task of the application, or runs one or all tasks of the library. Only
    /// after all of them the runtime is known to be idle.
    pub(crate) fn step(&mut self, now: Time, rng: &mut Rng) {
        let woken: Vec<usize> = (0..self.tasks.len())
            .filter(|task| self.tasks[*task].is_woken())
            .collect();
        match rng.choice(woken) {
            Some(task) if rng.bool() => self.poll(task, now),
            Some(_) | None if rng.u32(..4) == 0 => self.run_background_task(now),
            Some(_) | None => self.run_background_tasks(now),
        }
    }

    fn poll(&mut self, task: usize, now: Time) {
        self.clock.at(now, || ());
        self.is_idle = false;
        let Task {
            future,
            woken,
            waker,
        } = &mut self.tasks[task];
        woken.0.store(false, Ordering::Relaxed);
        let poll = || future.as_mut().poll(&mut Context::from_waker(waker));
        if self.runtime.block_on(once(poll)).is_ready() {
            self.drop_task(task, now);
        }
    }

    /// Runs one task of the library, if one is ready, and checks the timers.
    fn run_background_task(&mut self, now: Time) {
        self.clock.at(now, || ());
        let mut is_over = false;
        self.runtime.block_on(poll_fn(|context| {
            if replace(&mut is_over, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }));
    }

    /// Runs tasks of the library until none is ready.
    fn run_background_tasks(&mut self, now: Time) {
        self.clock.at(now, || ());
        let mut is_over = false;
        self.runtime.block_on(poll_fn(|context| {
            if replace(&mut is_over, true) {
                return Poll::Ready(());
            }
            *held(&self.parking) = Some(context.waker().clone());
            Poll::Pending
        }));
        *held(&self.parking) = None;
        // The runtime checks its timers last; tasks that they wake run at the next check.
        self.is_idle = true;
    }

    /// Drops a random task of the application.
    pub(crate) fn cancel(&mut self, now: Time, rng: &mut Rng) {
        if !self.tasks.is_empty() {
            self.drop_task(rng.usize(..self.tasks.len()), now);
        }
    }

    fn drop_task(&mut self, task: usize, now: Time) {
        self.is_idle = false;
        self.clock.at(now, || ());
        let tasks = &mut self.tasks;
        self.runtime
            .block_on(once(|| drop(tasks.swap_remove(task))));
    }
}

impl Task {
    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::Relaxed)
    }
}

/// Runs `action` when polled.
async fn once<T>(action: impl FnOnce() -> T) -> T {
    action()
}
