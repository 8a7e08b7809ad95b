//! Schedules of one process on the memory backend: its queue, all modes, and hand-off.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lock_core::{DistributedLock, HandOff, MemoryLock};

use crate::actor::Habits;
use crate::ground::Ground;
use crate::observer::{Observer, Promises};
use crate::process::Process;
use crate::world::{Member, REST_MAX, Troubles, World};

const TROUBLED: Duration = Duration::from_millis(700);
const LIMIT: Duration = Duration::from_secs(20);

/// Runs the world of `seed`, and asserts that no hold, waiter or task is left.
pub(crate) fn run(seed: u64) -> Vec<String> {
    let memory = MemoryLock::new();
    let mut world = world(seed, &memory);
    world.run(LIMIT, |world| world.now >= TROUBLED || world.is_done());
    let cancel = world.troubles.cancel;
    world.troubles = Troubles {
        cancel,
        ..Troubles::default()
    };
    world.run(LIMIT, |world| world.is_done());
    world.run(LIMIT, |_| true);
    if world.habits.min_hold {
        let end = world.now + world.habits.ttl * 3;
        world.run(LIMIT, |world| world.now >= end);
    }
    // By now a stalled process has released any grant that its tasks had not seen.
    assert_eq!(memory.residue(), [""; 0], "not given back");
    let member = &mut world.members[0];
    let clients = format!("{:?}", member.locks);
    assert!(!clients.contains("key/"), "remembered: {clients}");
    member.locks.clear();
    let end = world.now + world.habits.ttl + REST_MAX * 3;
    world.run(LIMIT, |world| world.now >= end);
    assert_eq!(
        world.members[0].process.background_tasks(),
        0,
        "still works"
    );
    world.observer.story()
}

fn world(seed: u64, memory: &MemoryLock) -> World {
    fastrand::seed(seed);
    let mut rng = Rng::with_seed(seed);
    let hand_off = rng.bool();
    let habits = Habits {
        rounds: 6,
        modes: true,
        ..Habits::draw(&mut rng)
    };
    let stall = if rng.bool() { 100 } else { 0 };
    let removal = if rng.bool() { 60 } else { 0 };
    let calm = stall + removal == 0;
    let promises = Promises {
        calm,
        in_line: hand_off && calm && !habits.max_hold,
        fair: !hand_off && stall == 0,
        alone: !hand_off,
        answered: stall == 0,
    };
    let client = || -> Arc<dyn DistributedLock> {
        let client = Arc::new(memory.new_client());
        if hand_off {
            return Arc::new(HandOff::new(client, Duration::from_millis(10)));
        }
        client
    };
    let member = Member {
        process: Process::start(Duration::ZERO, 100),
        number: 0,
        locks: vec![client(), client()],
        listen: Box::new(|| ()),
    };
    let mut world = World {
        members: vec![member],
        now: Duration::ZERO,
        observer: Arc::new(Observer::new(Arc::new(memory.clone()), promises)),
        ground: Arc::new(memory.clone()),
        habits,
        troubles: Troubles {
            cancel: if rng.bool() { 20 } else { 0 },
            stall,
            removal,
            shutdown: if rng.u32(..4) == 0 { 40 } else { 0 },
        },
        rng,
    };
    let actors = world.rng.usize(3..8);
    world.populate(0, actors);
    world
}
