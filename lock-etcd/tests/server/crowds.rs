//! Many holds and many waiters of one client. `LOCK_CROWD=5000` increases their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest};
use lock_etcd::EtcdLock;
use lock_testkit::faults::Proxy;
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{eventually, steady};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{Beside, PROMPT, connect, lock_for};

/// Returns the size of a crowd: `LOCK_CROWD` if set, else `usual`.
fn crowd(usual: usize) -> usize {
    let told = std::env::var("LOCK_CROWD").ok();
    told.map_or(usual, |told| told.parse().expect("LOCK_CROWD is a number"))
}

/// Returns the time that a crowd of this size may take on a busy machine.
fn limit(size: usize) -> Duration {
    PROMPT * 3 + Duration::from_millis(20) * u32::try_from(size).expect("small")
}

/// A ttl that leaves time to renew a crowd on a busy machine.
const TTL: Duration = Duration::from_secs(30);

async fn hold_many(locks: &EtcdLock, size: usize) -> Vec<LockGuard> {
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mut guards = Vec::new();
            for number in (task..size).step_by(32) {
                guards.push(lock_for(&locks, &format!("many/{number}"), TTL).await);
            }
            guards
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

fn watchers(cluster: &EtcdCluster) -> usize {
    cluster.first().figure("etcd_debugging_mvcc_watcher_total") as usize
}

/// Returns the number of messages that have arrived on watch streams.
fn watch_requests(cluster: &EtcdCluster) -> usize {
    let name = "grpc_server_msg_received_total{grpc_method=\"Watch\"";
    cluster.first().figure(name) as usize
}

#[test]
fn many_holds_survive_a_reconnection_and_hear_of_their_removal() {
    steady(async || {
        let size = crowd(2000);
        let cluster = EtcdCluster::start(1);
        let proxy = Proxy::before(cluster.first().port());
        let locks = connect(format!("etcd://127.0.0.1:{}", proxy.port())).await;
        let guards = hold_many(&locks, size).await;
        let all = || async { watchers(&cluster) == size };
        eventually(limit(size), "all holds are watched", all).await;
        let before = watch_requests(&cluster);
        proxy.all().reset();
        let cut = Instant::now();
        let gone = || async { watchers(&cluster) < size };
        eventually(PROMPT, "the stream has ended", gone).await;
        // Delete keys while the client begins to watch again.
        cluster.control(&["del", "--prefix", "many/1"]);
        eventually(limit(size), "the others are watched again", || async {
            watchers(&cluster) >= guards.iter().filter(|guard| guard.is_held()).count()
        })
        .await;
        let (again, asked) = (cut.elapsed(), watch_requests(&cluster) - before);
        assert!(
            asked <= size + size / 2,
            "{asked} requests for {size} watches"
        );
        let is_deleted = |guard: &&LockGuard| guard.key().as_str().starts_with("many/1");
        let told = || async {
            guards
                .iter()
                .filter(is_deleted)
                .all(|guard| !guard.is_held())
        };
        eventually(TTL / 3 + PROMPT, "the removed ones are told", told).await;
        let lost = guards.iter().filter(|guard| !guard.is_held());
        assert_eq!(lost.count(), guards.iter().filter(is_deleted).count());
        cluster.control(&["del", "--prefix", "many/"]);
        let deleted = Instant::now();
        for guard in &guards {
            let lost = timeout(TTL / 3 + PROMPT, guard.lost()).await;
            lost.expect("it is told");
        }
        eprintln!(
            "{size} holds: watched again after {again:?} by {asked} requests, all told after {:?}",
            deleted.elapsed()
        );
    });
}

struct Crowd {
    waiting: JoinSet<()>,
    granted: mpsc::UnboundedReceiver<LockGuard>,
}

/// Starts waiters of one client, and returns once all of them are in the queue.
async fn wait_in_line(
    cluster: &EtcdCluster,
    locks: &EtcdLock,
    size: usize,
    request: LockRequest,
) -> Crowd {
    let (sender, granted) = mpsc::unbounded_channel();
    let puts = || cluster.first().figure("etcd_mvcc_put_total") as usize;
    let before = puts();
    let mut waiting = JoinSet::new();
    for _ in 0..size {
        let (locks, request, sender) = (locks.clone(), request.clone(), sender.clone());
        waiting.spawn(async move {
            let guard = locks.acquire(request).await.expect("the server runs");
            let guard = guard.expect("it waits as long as it takes");
            sender.send(guard).expect("the test listens");
        });
    }
    let all = || async { puts() >= before + size };
    eventually(limit(size), "all stand in line", all).await;
    Crowd { waiting, granted }
}

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("on Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<usize>().ok())
        .expect("a number")
        * 1024
}

#[test]
fn a_crowd_of_exclusive_waiters_is_served_one_by_one() {
    steady(async || {
        let size = crowd(300);
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let held = lock_for(&other, "k", TTL).await;
        let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
        let (begun, before) = (Instant::now(), resident());
        let mut crowd = wait_in_line(&cluster, &locks, size, request).await;
        let joined = begun.elapsed();
        let each = resident().saturating_sub(before) / size;
        // With fewer waiters, the memory of other tests prevails.
        assert!(
            size < 2000 || each < 4 << 10,
            "{each} bytes for each waiter"
        );
        held.release().await.unwrap();
        let begun = Instant::now();
        for _ in 0..size {
            let guard = timeout(PROMPT, crowd.granted.recv()).await.expect("a turn");
            guard.unwrap().release().await.unwrap();
        }
        eprintln!(
            "{size} exclusive waiters: joined in {joined:?}, {each} bytes each, {:?} a turn",
            begun.elapsed() / u32::try_from(size).unwrap()
        );
        while let Some(task) = crowd.waiting.join_next().await {
            task.unwrap();
        }
    });
}

#[test]
fn a_crowd_of_readers_behind_a_writer_enters_together() {
    steady(async || {
        let size = crowd(300);
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let held = lock_for(&other, "k", TTL).await;
        let request = LockRequest::shared("k").unwrap().with_ttl(TTL);
        let (begun, before) = (Instant::now(), resident());
        let mut crowd = wait_in_line(&cluster, &locks, size, request).await;
        let joined = begun.elapsed();
        let each = resident().saturating_sub(before) / size;
        assert!(held.is_held(), "the writer has lost its lock");
        held.release().await.unwrap();
        let begun = Instant::now();
        let mut guards = Vec::new();
        for _ in 0..size {
            let guard = timeout(limit(size), crowd.granted.recv()).await;
            guards.push(guard.expect("a turn").unwrap());
        }
        let entered = begun.elapsed();
        assert!(guards.iter().all(LockGuard::is_held));
        eprintln!(
            "{size} readers: joined in {joined:?}, {each} bytes each, all in after {entered:?}"
        );
    });
}

/// Writes a key that belongs to no lock, again and again.
async fn write(endpoint: String, writes: Arc<AtomicUsize>) {
    let client = lock_etcd::etcd_client::Client::connect([endpoint], None).await;
    let mut client = client.expect("the server runs");
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let written = client.put("unrelated", "value", None).await;
        written.expect("the server runs");
        writes.fetch_add(1, Ordering::SeqCst);
    }
}

/// Another client writes keys of no lock, and no waiter sends a request for them.
#[test]
fn a_crowd_that_waits_for_permits_asks_for_nothing() {
    steady(async || {
        const MEASURED: Duration = Duration::from_secs(6);
        let size = crowd(300);
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let ttl = Duration::from_secs(60);
        let request = LockRequest::permit("k", 1).unwrap().with_ttl(ttl);
        let held = other.acquire(request.clone()).await.unwrap().expect("free");
        let mut crowd = wait_in_line(&cluster, &locks, size, request).await;
        let writes = Arc::new(AtomicUsize::new(0));
        let writing = Beside::run(write(cluster.first().endpoint(), Arc::clone(&writes)));
        // Wait for the end of the requests that start the watch.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let figure = |name| cluster.first().figure(name);
        let figures = || {
            [
                figure("grpc_server_handled_total"),
                figure("etcd_server_proposals_applied_total"),
                figure("etcd_network_client_grpc_sent_bytes_total"),
            ]
        };
        let (before, written) = (figures(), writes.load(Ordering::SeqCst));
        tokio::time::sleep(MEASURED).await;
        let (after, written) = (figures(), writes.load(Ordering::SeqCst) - written);
        drop(writing);
        let a_second = |index: usize, less: usize| {
            (after[index] - before[index] - less as f64) / MEASURED.as_secs_f64()
        };
        let (requests, proposals, bytes) =
            (a_second(0, written), a_second(1, written), a_second(2, 0));
        eprintln!(
            "{size} waiting permits: {requests:.1} requests, {proposals:.1} proposals, {bytes:.0} bytes a second"
        );
        assert!(requests < 5.0, "{requests} requests a second");
        assert!(proposals < 5.0, "{proposals} proposals a second");
        held.release().await.unwrap();
        let begun = Instant::now();
        for _ in 0..size {
            let guard = timeout(PROMPT, crowd.granted.recv()).await.expect("a turn");
            guard.unwrap().release().await.unwrap();
        }
        eprintln!(
            "{:?} a turn",
            begun.elapsed() / u32::try_from(size).unwrap()
        );
    });
}
