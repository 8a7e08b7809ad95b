//! Thousands of short holds under constant renewal, which leave nothing in the client or on the
//! server.

use std::process::Command;
use std::time::Duration;

use lock_core::backend::KeeperRuntime;
use lock_redis::RedisLock;
use lock_testkit::eventually;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::PROMPT;
use crate::bed::{Bed, in_all_modes, take};

const TASKS: usize = 6;

/// Number of cycles of each task.
const CYCLES: usize = 600;

/// The environment variable that marks the child process.
const CHILD: &str = "POLYLOCK_TEST_CYCLES";

/// The shortest ttl, which is renewed every 17 ms.
const TTL: Duration = Duration::from_millis(50);

/// Returns the resident memory of this process in kB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a size")
}

async fn tasks_on_keeper_thread() -> usize {
    let count = async { Handle::current().metrics().num_alive_tasks() };
    let keeper_runtime = KeeperRuntime::thread().expect("it runs");
    keeper_runtime
        .spawn(count)
        .expect("it runs")
        .await
        .expect("it counts")
}

/// Takes and releases a lock, and holds every third one until its renewal is due.
async fn cycle(locks: RedisLock, task: usize, cycles: usize) {
    let requests = in_all_modes(&format!("k{task}"), TTL);
    for cycle in 0..cycles {
        let guard = take(&locks, &requests[cycle % 3]).await;
        if cycle % 3 == 0 {
            sleep(TTL / 3 + Duration::from_micros(cycle as u64 % 7 * 250)).await;
        }
        if cycle % 2 == 0 {
            drop(guard);
        } else {
            guard.release().await.expect("the server runs");
        }
    }
}

async fn cycles(locks: &RedisLock, each: usize) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(cycle(locks.clone(), task, each));
    }
    tasks.join_all().await;
}

async fn leaves_nothing() {
    let bed = Bed::new();
    let locks = bed.direct().await;
    cycles(&locks, 150).await;
    let before = memory();
    cycles(&locks, CYCLES).await;
    bed.empties().await;
    eventually(PROMPT, "no task is left here", || async {
        // The driver's task, the task that sends batches, and the task that notices the end of the
        // runtime.
        Handle::current().metrics().num_alive_tasks() <= 3
    })
    .await;
    eventually(PROMPT, "no task is left on the keeper thread", || async {
        // The same three, the timer of requests, and the task that counts.
        tasks_on_keeper_thread().await <= 5
    })
    .await;
    let grown = memory().saturating_sub(before);
    let cycles = TASKS * CYCLES;
    println!("{cycles} cycles have left {grown} kB");
    assert!(grown < 600, "{grown} kB more after {cycles} cycles");
}

/// Runs in a process of its own, without the tasks and the memory of other tests.
#[test]
fn thousands_of_cycles_leave_no_key_no_task_and_no_memory() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(leaves_nothing());
        return;
    }
    let name = "cycles::thousands_of_cycles_leave_no_key_no_task_and_no_memory";
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("this test runs once more");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&child.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
    println!("{said}");
}
