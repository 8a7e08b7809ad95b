//! Names that are used once: neither the client nor the server remembers them.

use std::ops::Range;

use lock_core::DistributedLockExt;
use lock_redis::RedisLock;
use lock_testkit::servers::RedisServer;
use tokio::task::JoinSet;

use crate::child::Child;
use crate::is_empty;

/// Takes each name once, waits for it once, and gives a wait for it up once.
pub(crate) async fn use_names(clients: &[RedisLock; 2], numbers: Range<usize>) {
    const TASKS: usize = 20;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let [ours, theirs] = clients.clone();
        let numbers = numbers.clone().skip(task).step_by(TASKS);
        tasks.spawn(async move {
            for number in numbers {
                let name = format!("{number:0>200}");
                let guard = ours.lock(&name).await.expect("the server runs");
                let (next, released) = tokio::join!(theirs.lock(&name), guard.release());
                released.expect("the server runs");
                next.expect("the server runs")
                    .release()
                    .await
                    .expect("the server runs");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("the names are free");
    }
}

/// A child of its own, since other tests of this process need memory meanwhile.
#[test]
fn used_names_leave_no_memory_behind() {
    /// What an allocator may do for itself, in kilobytes. A name alone has 200 bytes.
    const NOISE: usize = 1000;
    let server = RedisServer::start();
    let mut child = Child::start(&server, "names 10000");
    let resident: [usize; 2] = [(); 2].map(|()| child.says().parse().expect("a number"));
    let grown = resident[1].saturating_sub(resident[0]);
    assert!(grown < NOISE, "{grown} kB more after 8,000 more names");
    assert!(is_empty(&server), "names were left on the server");
}
