//! Several keys are taken together, or none of them.

use lock_core::backend::Released;
use lock_core::{DistributedLockExt, LockRequest, Mode, Wait};
use tokio::task::JoinSet;

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::release;
use crate::eventually::within;
use crate::polls::poll_times;

const NAMES: [&str; 4] = ["set/a", "set/b", "set/c", "set/d"];

fn requests(bench: &Bench) -> Vec<LockRequest> {
    NAMES.map(|name| bench.exclusive(name)).to_vec()
}

pub(crate) async fn a_set_is_taken_whole_or_not_at_all(bench: Bench) {
    let [client, other] = bench.clients().await;
    let locks = client.locks();
    let held = other.take(&bench.exclusive(NAMES[2])).await;
    let try_set = within(
        4 * bench.prompt(),
        "an answer to a set",
        locks.acquire_all(requests(&bench), Wait::No),
    );
    let refused = try_set.await.expect("an answer");
    assert_excluded!(
        refused.is_none(),
        "a set was granted although a lock of it is held"
    );
    for name in [NAMES[0], NAMES[1], NAMES[3]] {
        release(other.wait_for(&bench.exclusive(name)).await).await;
    }
    release(held).await;
    let taking = locks.acquire_all(requests(&bench), Wait::within(bench.prompt()));
    let set = within(2 * bench.prompt(), "a free set", taking).await;
    let set = set.expect("an answer").expect("free");
    assert_eq!(set.keys().count(), NAMES.len());
    for name in NAMES {
        let request = bench.exclusive(name);
        other.is_refused(&request, "a set holds it").await;
    }
    assert!(set.is_held());
    let released = set.release().await;
    assert_eq!(released.expect("released"), Released::Released);
    bench.nothing_is_left().await;
}

pub(crate) async fn a_set_is_not_granted_beside_a_reader(bench: Bench) {
    let [client, other] = bench.clients().await;
    let locks = client.locks();
    let reader = other.take(&bench.request(NAMES[3], Mode::Shared)).await;
    let try_set = within(
        4 * bench.prompt(),
        "an answer to a set",
        locks.acquire_all(requests(&bench), Wait::No),
    );
    let refused = try_set.await.expect("an answer");
    assert_excluded!(
        refused.is_none(),
        "a set was granted although a reader holds one of its locks"
    );
    for name in &NAMES[..3] {
        release(other.wait_for(&bench.exclusive(name)).await).await;
    }
    assert!(reader.is_held());
    release(reader).await;
    bench.nothing_is_left().await;
}

pub(crate) async fn sets_in_any_order_never_wait_in_a_circle(bench: Bench) {
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let (client, bench) = (bench.client().await, bench.clone());
        tasks.spawn(async move {
            let (locks, mut random) = (client.locks(), bench.random(task));
            for _ in 0..10 {
                let mut some = requests(&bench);
                random.shuffle(&mut some);
                some.truncate(random.usize(1..=NAMES.len()));
                let set = locks.acquire_all(some, Wait::Forever).await;
                let set = set.expect("an answer").expect("no limit");
                tokio::task::yield_now().await;
                assert!(set.is_held());
                set.release().await.expect("released");
            }
        });
    }
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no set fails");
        }
    };
    within(10 * bench.prompt(), "all sets taken", all).await;
}

pub(crate) async fn a_set_dropped_at_every_poll_leaves_nothing(bench: Bench) {
    const POLLS_MAX: usize = 200;
    let [client, other] = bench.clients().await;
    let locks = client.locks();
    for polls in 0..POLLS_MAX {
        let taking = locks.acquire_all(requests(&bench), Wait::Forever);
        let taken = poll_times(taking, polls, bench.prompt()).await;
        let is_complete = taken.is_some();
        drop(taken);
        for name in NAMES {
            release(other.wait_for(&bench.exclusive(name)).await).await;
        }
        if is_complete {
            bench.nothing_is_left().await;
            return;
        }
    }
    panic!("not acquired after {POLLS_MAX} polls");
}
