//! Names that are used once: neither the client nor the store may remember them.

use std::ops::Range;
use std::sync::Arc;

use lock_core::{DistributedLock, DistributedLockExt};
use tokio::task::JoinSet;

use super::parent::Parent;

/// In how many parts the names are used, so that none takes longer than whoever listens waits.
pub(super) const PARTS: usize = 5;

/// Uses `count` names, and says how much memory this process has after each part of them.
pub(super) async fn use_names<L: DistributedLock>(parent: &Parent, clients: [L; 2], count: usize) {
    let clients = Arc::new(clients);
    for part in 0..PARTS {
        use_each(&clients, count * part / PARTS..count * (part + 1) / PARTS).await;
        parent.say(resident());
    }
}

/// Takes each name once, and waits for it once.
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

/// The memory that this process occupies, in kilobytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.and_then(|line| line.split_whitespace().next());
    let number = text.and_then(|text| text.parse().ok());
    number.expect("a number of kB")
}
