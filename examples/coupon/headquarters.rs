//! The part that is the same for every strategy and every lock store.
//!
//! It keeps the shop, the accidents, the keys of the in-memory commands, and the register of
//! answers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::coupon::accident::{Accident, Mishap, Pause, Point, Until};
use crate::coupon::commands::{Commands, MemoryCommands};
use crate::coupon::protocol::{Call, Job, Reply};
use crate::coupon::register::Register;
use crate::coupon::script::Script;
use crate::coupon::shop::{Shop, User};
use crate::coupon::submissions::FIRST_IMPATIENT;
use crate::stage::Transport;
use crate::stage::problem::Problem;

/// One run of one strategy, as seen by the headquarters.
pub(crate) struct Headquarters {
    job: Job,
    instances: u32,
    // A watch channel, so that every change wakes the calls that wait for an event.
    state: watch::Sender<State>,
    register: Mutex<Register>,
    commands: MemoryCommands,
}

struct State {
    shop: Shop,
    script: Script,
    ready: u32,
}

impl Headquarters {
    /// Opens a shop with `stock` coupons; `job` holds the submissions of all instances.
    pub(crate) fn new(job: Job, stock: u32, instances: u32, register: Register) -> Self {
        let (state, _) = watch::channel(State {
            shop: Shop::with_stock(stock),
            script: Script::of(job.strategy, stock, job.ttl),
            ready: 0,
        });
        Self {
            job,
            instances,
            state,
            register: Mutex::new(register),
            commands: MemoryCommands::default(),
        }
    }

    /// Passes the books to `look`.
    pub(crate) fn inspect<T>(&self, look: impl FnOnce(&Shop, &Register) -> T) -> T {
        look(&self.state.borrow().shop, &self.register())
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut result = None;
        self.state.send_modify(|state| result = Some(change(state)));
        result.expect("send_modify always calls its closure")
    }

    fn register(&self) -> MutexGuard<'_, Register> {
        // The register only counts, so a panic leaves no inconsistency.
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the unanswered submissions of an instance.
    ///
    /// After a crash, a load balancer would send them again, too.
    fn job_of(&self, instance: u32) -> Job {
        let register = self.register();
        let mut job = self.job.clone();
        job.submissions
            .retain(|one| one.instance == instance && !register.is_answered(one.id));
        job
    }

    async fn all_ready(&self) {
        self.change(|state| state.ready += 1);
        self.until(|state| state.ready >= self.instances).await;
        self.register().open();
    }

    async fn come_by(&self, point: Point, user: User) -> Mishap {
        let (accident, sold, drawn) = self.change(|state| {
            let sold = state.shop.sold();
            let accident = state.script.draw(point, sold);
            (accident, sold, state.script.drawn())
        });
        match accident {
            None => Mishap::None,
            Some(Accident::Exception) => Mishap::Exception,
            Some(Accident::Crash) => Mishap::Crash,
            Some(Accident::Pause(Pause { until, at_most })) => {
                let over = self.until(|state| match until {
                    Until::AnotherOrder => state.shop.sold() > sold,
                    Until::NextAccident => state.script.drawn() > drawn,
                    Until::OrderedTwice if user == FIRST_IMPATIENT => {
                        state.shop.looks_for(user) >= 2
                    }
                    Until::OrderedTwice => state.shop.orders_of(FIRST_IMPATIENT) >= 2,
                });
                // Both ends of the pause are expected, so the time limit is no error.
                let _in_time = tokio::time::timeout(at_most, over).await;
                Mishap::None
            }
        }
    }

    async fn until(&self, happened: impl FnMut(&State) -> bool) {
        let mut changes = self.state.subscribe();
        // The wait fails only after the sender is dropped, and `self` owns the sender.
        drop(changes.wait_for(happened).await);
    }
}

#[async_trait]
impl Transport<Call, Reply> for Headquarters {
    async fn exchange(&self, call: Call) -> Result<Reply, Problem> {
        // Simulates the round trip to a database: other claims may run between any two steps.
        tokio::task::yield_now().await;
        Ok(match call {
            Call::Apply { instance } => Reply::Job(self.job_of(instance)),
            Call::Ready => {
                self.all_ready().await;
                Reply::Done
            }
            Call::LastReply { submission } => {
                self.register().record(submission);
                Reply::Done
            }
            Call::ComeBy { point, user } => Reply::Mishap(self.come_by(point, user).await),
            Call::ReadStock => Reply::Stock(self.state.borrow().shop.stock()),
            Call::WriteStock { stock } => {
                self.change(|state| state.shop.write_stock(stock));
                Reply::Done
            }
            Call::DecrementIfPositive => {
                Reply::Yes(self.change(|state| state.shop.decrement_if_positive()))
            }
            Call::HasOrder { user } => Reply::Yes(self.change(|state| state.shop.has_order(user))),
            Call::WriteOrder { user } => {
                self.change(|state| state.shop.write_order(user));
                Reply::Done
            }
            Call::Command(command) => Reply::Command(self.commands.run(command).await?),
        })
    }
}
