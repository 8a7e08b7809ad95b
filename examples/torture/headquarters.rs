//! The part that no fault touches: the registers that the locks protect, and the orders to the
//! workers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::protocol::{Call, Job, Order, Reply};
use crate::registers::{REGISTERS, Register, Updates};
use crate::stage::Transport;
use crate::stage::problem::Problem;
use crate::workers::Workers;

/// One run, as seen by the headquarters.
pub(crate) struct Headquarters {
    job: Job,
    /// The URL by which each worker reaches the store, if it differs from the store's own.
    urls: Vec<Option<String>>,
    pub(crate) workers: Arc<Workers>,
    registers: Mutex<Vec<Register>>,
    granted: AtomicU64,
    is_over: watch::Sender<bool>,
}

impl Headquarters {
    pub(crate) fn new(job: Job, urls: Vec<Option<String>>, workers: Arc<Workers>) -> Self {
        let registers = (0..REGISTERS).map(|_| Register::default()).collect();
        Self {
            job,
            urls,
            workers,
            registers: Mutex::new(registers),
            granted: AtomicU64::new(0),
            is_over: watch::channel(false).0,
        }
    }

    /// Orders all workers to request no more locks, and to end.
    pub(crate) fn end(&self) {
        self.is_over.send_replace(true);
    }

    /// Returns the number of grants that the workers have reported.
    pub(crate) fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }

    /// Returns the updates of the registers without a check of tokens, and with it.
    pub(crate) fn updates(&self) -> (Updates, Updates) {
        let sum = |sum: Updates, one: Updates| Updates {
            updates: sum.updates + one.updates,
            lost: sum.lost + one.lost,
        };
        let registers = self.registers();
        let plain = registers.iter().map(Register::plain);
        let fenced = registers.iter().map(Register::fenced);
        (
            plain.fold(Updates::default(), sum),
            fenced.fold(Updates::default(), sum),
        )
    }

    /// Returns how often two holders were at a register at once; see [`Register::collisions`].
    pub(crate) fn collisions(&self, is_excused: impl Fn(Instant) -> bool) -> usize {
        let registers = self.registers();
        let collisions = registers.iter().map(|one| one.collisions(&is_excused));
        collisions.sum()
    }

    fn registers(&self) -> MutexGuard<'_, Vec<Register>> {
        self.registers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn job_of(&self, worker: u32, process: u32) -> Job {
        let life = self.workers.begins(worker, process);
        let url = self.urls[worker as usize].clone();
        self.job.clone().by(url).in_life(life)
    }

    /// Waits for the next order to this worker.
    async fn order(&self, worker: u32) -> Order {
        let mut is_over = self.is_over.subscribe();
        tokio::select! {
            biased;
            order = self.workers.next_order(worker) => order,
            // The wait fails only after the sender is dropped, and `self` owns the sender.
            () = async { drop(is_over.wait_for(|over| *over).await) } => Order::End,
        }
    }
}

#[async_trait]
impl Transport<Call, Reply> for Headquarters {
    async fn exchange(&self, call: Call) -> Result<Reply, Problem> {
        match call {
            Call::Apply { worker, process } => {
                return Ok(Reply::Job(self.job_of(worker, process)));
            }
            Call::Orders { worker } => return Ok(Reply::Order(self.order(worker).await)),
            Call::Read { holder, register } => self.registers()[register].read(holder),
            Call::Write { holder, register } => self.registers()[register].write(holder),
            Call::Confirm { holder, register } => self.registers()[register].confirm(holder),
            Call::Granted(count) => {
                self.granted.fetch_add(count, Ordering::Relaxed);
            }
        }
        Ok(Reply::Done)
    }
}
