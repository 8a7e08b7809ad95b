//! The headquarters' view of the workers: their lives, and how to stop and kill them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_testkit::history::{Effect, Recorder};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::protocol::{Order, name};
use crate::stage::problem::Problem;

/// All workers.
pub(crate) struct Workers {
    are_processes: bool,
    recorder: Recorder,
    all: Vec<Worker>,
}

#[derive(Default)]
struct Worker {
    state: Mutex<State>,
    ordered: Notify,
}

#[derive(Default)]
struct State {
    lives: u32,
    /// The process of the present life; `None` between two lives.
    process: Option<u32>,
    orders: VecDeque<Order>,
}

impl Workers {
    pub(crate) fn new(count: u32, are_processes: bool, recorder: Recorder) -> Self {
        Self {
            are_processes,
            recorder,
            all: (0..count).map(|_| Worker::default()).collect(),
        }
    }

    /// Notes that a worker begins a life; returns the number of the life.
    pub(crate) fn begins(&self, worker: u32, process: u32) -> u32 {
        let mut state = self.state(worker);
        state.process = Some(process);
        state.orders.clear();
        state.lives += 1;
        state.lives - 1
    }

    /// Returns the name of a living worker.
    pub(crate) fn alive(&self, worker: u32) -> Option<String> {
        let state = self.state(worker);
        state.process.map(|_| name(worker, state.lives - 1))
    }

    /// Stops a worker for this long; returns false if it is not alive.
    pub(crate) async fn stop(&self, worker: u32, duration: Duration) -> Result<bool, Problem> {
        let Some(name) = self.alive(worker) else {
            return Ok(false);
        };
        let since = Recorder::now();
        if self.are_processes {
            self.signal(worker, Signal::STOP)?;
            sleep(duration).await;
            self.signal(worker, Signal::CONT)?;
        } else {
            self.order(worker, Order::Stand(duration));
            sleep(duration).await;
        }
        self.recorder
            .fault(Some(&name), "stop_worker", since, Effect::None);
        Ok(true)
    }

    /// Kills a worker, which `run_instances` restarts; returns false if it is not alive.
    pub(crate) fn kill(&self, worker: u32) -> Result<bool, Problem> {
        let Some(name) = self.alive(worker) else {
            return Ok(false);
        };
        let since = Recorder::now();
        if self.are_processes {
            self.recorder.death(&name);
            self.signal(worker, Signal::KILL)?;
        } else {
            // The worker records its death itself when it obeys the order.
            self.order(worker, Order::Crash);
        }
        self.state(worker).process = None;
        self.recorder
            .fault(Some(&name), "kill_worker", since, Effect::None);
        Ok(true)
    }

    /// Waits for the next order to a worker.
    pub(crate) async fn next_order(&self, worker: u32) -> Order {
        loop {
            let ordered = self.all[worker as usize].ordered.notified();
            if let Some(order) = self.state(worker).orders.pop_front() {
                return order;
            }
            ordered.await;
        }
    }

    fn order(&self, worker: u32, order: Order) {
        self.state(worker).orders.push_back(order);
        self.all[worker as usize].ordered.notify_waiters();
    }

    fn signal(&self, worker: u32, signal: Signal) -> Result<(), Problem> {
        let process = self.state(worker).process;
        let process = process.and_then(|id| Pid::from_raw(id.try_into().ok()?));
        if let Some(process) = process {
            kill_process(process, signal).map_err(|problem| {
                format!("worker {worker} cannot be sent {signal:?}: {problem}")
            })?;
        }
        Ok(())
    }

    fn state(&self, worker: u32) -> MutexGuard<'_, State> {
        let state = &self.all[worker as usize].state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
