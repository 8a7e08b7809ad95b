//! Names that are used once, which neither the client nor the store may remember.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Clock;
use lock_core::{DistributedLock, DistributedLockExt};
use tokio::task::JoinSet;

use super::parent::Parent;

/// Number of parts in which the names are used; no part may take longer than the parent waits.
pub(super) const PARTS: usize = 4;

/// Time for which names are used before the first measurement.
///
/// No store keeps its knowledge of a name for longer.
const WARM_UP: Duration = Duration::from_secs(10);

/// Number of names that the warm-up uses between two readings of the clock.
const AT_ONCE: usize = 200;

/// Uses names for the time of the warm-up, and then `count` more names.
///
/// Sends the memory of this process after the warm-up, and after each part of the other names.
pub(super) async fn use_names<L: DistributedLock>(parent: &Parent, clients: [L; 2], count: usize) {
    let clients = Arc::new(clients);
    let (began, mut used) = (Clock::Boot.now(), 0);
    while Clock::Boot.now().since(began) < WARM_UP {
        use_each(&clients, used..used + AT_ONCE).await;
        used += AT_ONCE;
    }
    parent.say(resident());
    for part in 0..PARTS {
        let numbers = count * part / PARTS..count * (part + 1) / PARTS;
        use_each(&clients, used + numbers.start..used + numbers.end).await;
        parent.say(resident());
    }
}

/// Takes each name once with one client, while the other client waits for it.
async fn use_each<L: DistributedLock>(clients: &Arc<[L; 2]>, numbers: Range<usize>) {
    const TASKS: usize = 20;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let clients = Arc::clone(clients);
        let numbers = numbers.clone().skip(task).step_by(TASKS);
        tasks.spawn(async move {
            let [ours, theirs] = &*clients;
            for number in numbers {
                let name = format!("{number:0>200}");
                let guard = ours.lock(&name).await.expect("the store runs");
                let (next, released) = tokio::join!(theirs.lock(&name), guard.release());
                released.expect("the store runs");
                let released = next.expect("the store runs").release().await;
                released.expect("the store runs");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("the names are free");
    }
}

/// Returns the resident memory of this process, in kilobytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.and_then(|line| line.split_whitespace().next());
    let number = text.and_then(|text| text.parse().ok());
    number.expect("a number of kB")
}
