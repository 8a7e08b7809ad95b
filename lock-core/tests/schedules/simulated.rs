//! Schedules of several processes on the simulated server: keeper, claims, hand-off and early
//! renewals.

use std::sync::{Arc, Weak};
use std::time::Duration;

use fastrand::Rng;
use lock_core::{DistributedLock, HandOff};

use crate::actor::Habits;
use crate::client::{Client, Connection};
use crate::ground::Ground;
use crate::network::{LATE_MAX, Network};
use crate::observer::{Observer, Promises};
use crate::process::Process;
use crate::server::End;
use crate::world::{Member, REST_MAX, Troubles, World};

/// Time of the last fault. The test then waits for the remaining tasks.
const TROUBLED: Duration = Duration::from_millis(700);

/// Time limit, longer than all tasks need after any faults.
const LIMIT: Duration = Duration::from_secs(20);

/// A world with a simulated network and server.
pub(crate) struct Simulated {
    world: World,
    network: Arc<Network>,
    budget: Option<Duration>,
    faults: Faults,
    /// Parts of the clients that live as long as their holds and releases.
    connections: Vec<Weak<Connection>>,
}

/// Rates of the faults of processes and network, per 10,000 pauses. See also [`Troubles`].
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// The connection of a process is cut.
    cut: u32,
    /// The network drops all messages of a process for some time.
    silence: u32,
    /// A process is killed, and a new one started.
    crash: u32,
}

impl Simulated {
    /// Returns a world in which some tasks lead, take several keys, or enter their own locks. Half of
    /// these worlds have all kinds of faults.
    pub(crate) fn with_layers(seed: u64) -> Self {
        Self::new(seed, seed.is_multiple_of(2), true)
    }

    /// Returns a world whose only faults are cancelled tasks and closed clients.
    pub(crate) fn calm(seed: u64) -> Self {
        Self::new(seed, true, false)
    }

    /// Returns a world with all kinds of faults.
    pub(crate) fn rough(seed: u64) -> Self {
        Self::new(seed, false, false)
    }

    fn new(seed: u64, calm: bool, layers: bool) -> Self {
        fastrand::seed(seed);
        let mut rng = Rng::with_seed(seed);
        // Without other faults, the next renewal has to notice a removal.
        let answered = calm || rng.u32(..4) == 0;
        let mut trouble = |rate: u32| if answered || rng.bool() { 0 } else { rate };
        let (swallowed, stall) = (trouble(50), trouble(100));
        let faults = Faults {
            cut: trouble(150),
            silence: trouble(100),
            crash: trouble(30),
        };
        let removal = if calm || rng.bool() { 0 } else { 60 };
        let mut habits = Habits::draw(&mut rng);
        habits.layers = layers;
        // A round trip takes up to half of the ttl. The core releases grants that took more than a
        // third.
        let slow = habits.ttl.mul_f64(0.25 * rng.f64());
        let quick = Duration::from_millis(3);
        let latency = if answered { quick } else { slow };
        // Only where all requests are answered: a client cannot know of a shortened renewal before
        // the answer.
        let shortened = if answered && !calm { 200 } else { 0 };
        let network = Arc::new(Network::new(rng.fork(), latency, swallowed, shortened));
        let budget = rng.bool().then_some(Duration::from_millis(10));
        let promises = Promises {
            calm,
            in_line: calm && !habits.max_hold,
            fair: false,
            alone: budget.is_none(),
            answered,
        };
        let mut simulated = Self {
            world: World {
                members: Vec::new(),
                now: Duration::ZERO,
                observer: Arc::new(Observer::new(Arc::<Network>::clone(&network), promises)),
                ground: Arc::<Network>::clone(&network),
                habits,
                troubles: Troubles {
                    cancel: if rng.bool() { 20 } else { 0 },
                    stall,
                    removal,
                    shutdown: if rng.u32(..4) == 0 { 40 } else { 0 },
                },
                rng,
            },
            network,
            budget,
            faults,
            connections: Vec::new(),
        };
        for _ in 0..simulated.world.rng.usize(2..4) {
            simulated.start();
        }
        simulated
    }

    /// Starts a process.
    fn start(&mut self) {
        let rate = self.world.rng.u32(99..102);
        let process = Process::start(self.world.now, rate);
        let number = self.network.connect();
        let client = Arc::new(Client::new(Arc::clone(&self.network), number));
        self.connections.push(Arc::downgrade(&client.connection()));
        let locks: Arc<dyn DistributedLock> = match self.budget {
            Some(budget) => Arc::new(HandOff::new(Arc::<Client>::clone(&client), budget)),
            None => Arc::<Client>::clone(&client),
        };
        self.world.members.push(Member {
            process,
            number,
            locks: vec![locks],
            listen: Box::new(move || client.listen()),
        });
        let actors = self.world.rng.usize(1..4);
        self.world.populate(self.world.members.len() - 1, actors);
    }

    /// Runs the world, and asserts that no hold, waiter or task is left.
    pub(crate) fn run(mut self) -> Vec<String> {
        let (network, faults) = (Arc::clone(&self.network), self.faults);
        while self.world.now < TROUBLED && !self.world.is_done() {
            let crash = &mut None;
            self.world.run(LIMIT, |world| {
                if world.happens(faults.cut) {
                    let member = world.somebody();
                    let number = world.members[member].number;
                    world.observer.tell(format!("{number} is cut off"));
                    network.cut(number);
                }
                if world.happens(faults.silence) {
                    let member = world.somebody();
                    let number = world.members[member].number;
                    let until = world.now + (world.habits.ttl * 3).mul_f64(world.rng.f64());
                    world
                        .observer
                        .tell(format!("{number} is out of reach until {until:?}"));
                    network.silence(number, until);
                }
                if world.happens(faults.crash) {
                    *crash = Some(world.somebody());
                }
                crash.is_some() || world.now >= TROUBLED || world.is_done()
            });
            if let Some(member) = *crash {
                self.crash(member);
                self.start();
            }
        }
        self.network.heal();
        let cancel = self.world.troubles.cancel;
        self.world.troubles = Troubles {
            cancel,
            ..Troubles::default()
        };
        self.world.run(LIMIT, |world| world.is_done());
        self.assert_nothing_is_left()
    }

    /// Kills a process: none of its tasks runs any more.
    fn crash(&mut self, member: usize) {
        let world = &mut self.world;
        let member = world.members.remove(member);
        world.observer.tell(format!("{} is killed", member.number));
        world.observer.forgets(member.number);
        self.network.dies(member.number);
        let clock = member.process.clock.clone();
        clock.at(world.now, || drop(member));
    }

    fn assert_nothing_is_left(mut self) -> Vec<String> {
        let world = &mut self.world;
        let network = &self.network;
        let calm = world.observer.promises().calm;
        world.run(LIMIT, |_| network.next_arrival().is_none());
        if calm && world.habits.min_hold {
            let end = world.now + world.habits.ttl * 3;
            world.run(LIMIT, |world| world.now >= end);
        }
        if calm {
            assert_eq!(network.residue(), [""; 0], "not given back");
            let ends = network.server(|server| server.ends().to_vec());
            // The end of a minimum hold and its release arrive together.
            let kept = world.habits.min_hold;
            let is_given_back =
                |end: &_| *end == Some(End::Released) || kept && *end == Some(End::Expired);
            let given_back = ends.iter().all(is_given_back);
            assert!(given_back, "not given back: {ends:?}");
        }
        // Let late and unconfirmed grants expire; some have twice the ttl.
        let end = world.now + world.habits.ttl * 4 + LATE_MAX;
        world.run(LIMIT, |world| calm || world.now >= end);
        for member in &mut world.members {
            let clients = format!("{:?}", member.locks);
            assert!(!clients.contains("key/"), "remembered: {clients}");
            member.locks.clear();
            member.listen = Box::new(|| ());
        }
        // The keeper task ends at its next wake-up, which was for a hold that is gone.
        let end = world.now + world.habits.ttl + REST_MAX * 3;
        world.run(LIMIT, |world| world.now >= end);
        assert_eq!(network.residue(), [""; 0], "kept for ever");
        for member in &world.members {
            let tasks = member.process.background_tasks();
            assert_eq!(tasks, 0, "{} still works", member.number);
        }
        let kept = self
            .connections
            .iter()
            .filter(|kept| kept.strong_count() > 0);
        assert_eq!(kept.count(), 0, "something of a client is left");
        world.observer.story()
    }
}
