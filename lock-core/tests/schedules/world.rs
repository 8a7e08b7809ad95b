//! A world of processes around a store. It runs one step at a time, in an order that a seed
//! determines.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lock_core::{DistributedLock, LockKey};

use crate::actor::{Actor, Habits};
use crate::clock::Time;
use crate::ground::Ground;
use crate::observer::Observer;
use crate::process::Process;

/// Maximum time between two checks of a process's timers, as on a busy machine.
pub(crate) const LATENESS_MAX: Duration = Duration::from_millis(6);

/// Maximum time between two checks of the timers once all tasks have ended.
pub(crate) const REST_MAX: Duration = Duration::from_millis(30);

/// Maximum duration of a step, in nanoseconds. At least 1000, so that no two events coincide.
const STEP_MAX: u64 = 20_000;

pub(crate) struct World {
    // Dropped first: their guards still release.
    pub(crate) members: Vec<Member>,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    pub(crate) observer: Arc<Observer>,
    pub(crate) ground: Arc<dyn Ground>,
    pub(crate) habits: Habits,
    pub(crate) troubles: Troubles,
}

/// A process and its clients.
pub(crate) struct Member {
    pub(crate) process: Process,
    /// Its number for the observer.
    pub(crate) number: usize,
    pub(crate) locks: Vec<Arc<dyn DistributedLock>>,
    /// Lets the clients process the reports of the store, called as time goes on.
    pub(crate) listen: Box<dyn Fn()>,
}

/// Rates of the faults that any world can have, per 10,000 pauses. In a pause no process has work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Troubles {
    /// A task of the application is dropped. This rate is per 10,000 steps.
    pub(crate) cancel: u32,
    /// A process is stalled.
    pub(crate) stall: u32,
    /// A key is deleted on the store.
    pub(crate) removal: u32,
    /// A client is shut down.
    pub(crate) shutdown: u32,
}

impl World {
    /// Adds tasks to a member.
    pub(crate) fn populate(&mut self, member: usize, actors: usize) {
        let member = &mut self.members[member];
        for _ in 0..actors {
            let client = self.rng.usize(..member.locks.len());
            let locks = &member.locks[client];
            let actor = Actor {
                process: member.number,
                line: member.number + client,
                clock: member.process.clock.clone(),
                locks: Arc::clone(locks),
                observer: Arc::clone(&self.observer),
                habits: self.habits,
                rng: self.rng.fork(),
            };
            member.process.add(actor.act());
        }
    }

    /// Returns true if all tasks of the application have ended.
    pub(crate) fn is_done(&self) -> bool {
        let mut members = self.members.iter();
        members.all(|member| member.process.tasks() == 0)
    }

    /// Runs steps until `done` returns true. It is called whenever no process has work.
    pub(crate) fn run(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.now + limit;
        loop {
            assert!(self.now < end, "somebody is never served");
            self.arrive();
            let now = self.now;
            let busy =
                |member: &Member| !member.process.is_stalled(now) && !member.process.is_idle();
            let busy = (0..self.members.len()).filter(|member| busy(&self.members[*member]));
            let Some(next) = self.rng.choice(busy.collect::<Vec<_>>()) else {
                self.look();
                if done(self) {
                    return;
                }
                self.trouble();
                self.pause();
                continue;
            };
            let process = &mut self.members[next].process;
            if self.rng.u32(..10_000) < self.troubles.cancel {
                process.cancel(now, &mut self.rng);
            } else {
                process.step(now, &mut self.rng);
            }
            self.now += Duration::from_nanos(self.rng.u64(1000..STEP_MAX));
        }
    }

    /// Delivers the messages that are due.
    fn arrive(&mut self) {
        self.observer.time_is(self.now);
        let receivers = self.ground.deliver(self.now);
        for member in &mut self.members {
            if receivers.contains(&member.number) {
                member.process.disturb();
                member.process.clock.at(self.now, &member.listen);
            }
        }
    }

    /// Checks guards and waiters while no process has work.
    fn look(&mut self) {
        for member in &mut self.members {
            if member.process.has_looked() {
                self.observer.looks_at(member.number);
            }
        }
        self.observer.looks_at_waiters();
    }

    /// Moves time to the next arrival or check of timers.
    fn pause(&mut self) {
        let looks = self.members.iter().map(|member| member.process.looks_at());
        let next = looks.chain(self.ground.next_arrival()).min();
        self.now = self.now.max(next.expect("there is a process"));
        let lateness = if self.is_done() {
            REST_MAX
        } else {
            LATENESS_MAX
        };
        for member in &mut self.members {
            if member.process.looks_at() <= self.now {
                let next = self.now + lateness.mul_f64(self.rng.f64());
                member.process.look(next);
            }
        }
    }

    fn trouble(&mut self) {
        let ttl = self.habits.ttl;
        if self.happens(self.troubles.stall) {
            let until = self.now + (ttl * 3).mul_f64(self.rng.f64());
            let member = self.somebody();
            self.observer
                .tell(format!("{member} stands still until {until:?}"));
            self.members[member].process.stall(until);
        }
        if self.happens(self.troubles.removal) {
            let key = format!("key/{}", self.rng.u32(..self.habits.keys));
            let key = LockKey::new(key).expect("a key");
            self.observer.is_removed(&key);
            // The memory store lives in the first process.
            let clock = self.members[0].process.clock.clone();
            clock.at(self.now, || self.ground.remove(&key));
        }
        if self.happens(self.troubles.shutdown) {
            let member = self.somebody();
            self.shut_down(member);
        }
    }

    pub(crate) fn happens(&mut self, times: u32) -> bool {
        self.rng.u32(..10_000) < times
    }

    pub(crate) fn somebody(&mut self) -> usize {
        self.rng.usize(..self.members.len())
    }

    fn shut_down(&mut self, member: usize) {
        let number = self.members[member].number;
        self.observer.tell(format!("{number} shuts a client down"));
        let locks = self
            .rng
            .choice(&self.members[member].locks)
            .expect("a client");
        let (locks, observer) = (Arc::clone(locks), Arc::clone(&self.observer));
        self.members[member].process.add(async move {
            let outcome = locks.shutdown(Duration::from_secs(1)).await;
            if let Err(error) = outcome {
                assert!(!observer.promises().calm, "{error}");
            }
        });
    }
}
