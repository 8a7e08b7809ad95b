//! `etcdctl lock`, and thereby the mutexes of the Go client, on the same keys.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lock_core::{DistributedLockExt, Error, ErrorKind};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;
use tokio::time::timeout;

use crate::{Beside, PROMPT, connect, keys, queue_has};

/// A process of `etcdctl lock`, which is killed on drop.
struct Control(Child);

impl Control {
    /// Starts a process that acquires `name` and holds it until it is killed.
    fn lock(cluster: &EtcdCluster, name: &str) -> Self {
        let mut command: Command = cluster.control_command();
        let child = command
            .args(["lock", name, "--ttl", "5"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        Self(child.expect("etcdctl starts"))
    }

    /// Waits until the process holds the lock, and returns its key.
    async fn holds(&mut self) -> String {
        let output = self.0.stdout.take().expect("asked once");
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            let read = BufReader::new(output).read_line(&mut line);
            read.map(|_| line.trim_end().to_owned())
        });
        let line = timeout(PROMPT * 2, reading)
            .await
            .expect("it gets its turn");
        line.expect("no panic").expect("a line")
    }

    /// Ends the process as Ctrl-C does, which releases the lock.
    fn interrupt(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("our child");
        self.0.wait().expect("our child");
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Fails if the test has ended the process already.
        if self.0.kill().is_ok() {
            let _status = self.0.wait();
        }
    }
}

#[test]
fn etcdctl_excludes_us_in_every_mode_and_its_end_wakes_us() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let mut theirs = Control::lock(&cluster, "k");
        let key = theirs.holds().await;
        assert!(key.starts_with("k/"), "{key}");
        lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
        lock_testkit::assert_excluded!(locks.try_lock_shared("k").await.unwrap().is_none());
        lock_testkit::assert_excluded!(locks.try_permit("k", 5).await.unwrap().is_none());
        assert_eq!(keys(&cluster, "k/"), [key], "a refusal leaves something");

        let mut waiting = Beside::run(async move { locks.lock("k").await });
        queue_has(&cluster, "k", 2).await;
        theirs.interrupt();
        let guard = waiting.outcome().await;
        assert!(guard.unwrap().is_held());
    });
}

#[test]
fn we_exclude_etcdctl_and_our_release_wakes_it() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        for shared in [false, true] {
            let guard = if shared {
                locks.lock_shared("k").await.unwrap()
            } else {
                locks.lock("k").await.unwrap()
            };
            let mut theirs = Control::lock(&cluster, "k");
            queue_has(&cluster, "k", 2).await;
            let mut held = Box::pin(theirs.holds());
            let early = timeout(Duration::from_millis(500), &mut held).await;
            lock_testkit::assert_excluded!(early.is_err(), "etcdctl got what we hold");
            guard.release().await.unwrap();
            assert!(held.await.starts_with("k/"));
            theirs.interrupt();
            queue_has(&cluster, "k", 0).await;
        }
    });
}

#[test]
fn both_are_served_in_the_order_in_which_they_came() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let first = locks.lock("k").await.unwrap();
        let mut second = Control::lock(&cluster, "k");
        queue_has(&cluster, "k", 2).await;
        let other = connect(cluster.url()).await;
        let mut third = Beside::run(async move { other.lock("k").await });
        queue_has(&cluster, "k", 3).await;
        let mut fourth = Control::lock(&cluster, "k");
        queue_has(&cluster, "k", 4).await;

        let token = first.token();
        first.release().await.unwrap();
        second.holds().await;
        let early = timeout(Duration::from_millis(500), third.outcome()).await;
        lock_testkit::assert_excluded!(early.is_err(), "the third overtook the second");
        second.interrupt();
        let guard = third.outcome().await;
        let guard = guard.unwrap();
        assert!(guard.token() > token);
        guard.release().await.unwrap();
        fourth.holds().await;
    });
}

/// A mutex of the Go client is a key below the name, under the lease of its session.
#[test]
fn a_mutex_of_the_go_client_is_waited_for() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let granted = cluster.control(&["lease", "grant", "60"]);
        let lease = granted.split_whitespace().nth(1).expect("its id");
        cluster.control(&["put", &format!("k/{lease}"), "", "--lease", lease]);
        lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
        let mut waiting = Beside::run(async move { locks.lock("k").await });
        queue_has(&cluster, "k", 2).await;
        cluster.control(&["lease", "revoke", lease]);
        let guard = waiting.outcome().await;
        assert!(guard.unwrap().is_held());
    });
}

/// `etcdctl lock` waits for such a key for ever, without an error.
#[test]
fn a_key_that_never_ends_is_named_and_waited_for_by_nobody() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let named = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::Backend, "{error}");
            let advice = "the key \"k/config\" is a claim on the lock without a lease, so it never ends: \
                 delete it, or use another key or namespace";
            assert!(error.to_string().ends_with(advice), "{error}");
        };
        cluster.control(&["put", "k/below/config", "value"]);
        let held = other.lock("k").await.unwrap();
        let before = locks.clone();
        let mut before = Beside::run(async move { before.lock("k").await });
        queue_has(&cluster, "k", 3).await;
        cluster.control(&["put", "k/config", "value"]);
        // Both waiters get the error: `behind`, which is not the first waiter of its client, and
        // `other`, which is.
        let behind = locks.clone();
        let mut behind = Beside::run(async move { behind.lock("k").await });
        queue_has(&cluster, "k", 5).await;
        named(
            timeout(PROMPT, other.lock("k"))
                .await
                .expect("at once")
                .unwrap_err(),
        );
        held.release().await.unwrap();
        before.outcome().await.unwrap().release().await.unwrap();
        named(behind.outcome().await.unwrap_err());
        named(locks.try_lock("k").await.unwrap_err());
        named(
            timeout(PROMPT, locks.lock("k"))
                .await
                .expect("at once")
                .unwrap_err(),
        );
        queue_has(&cluster, "k", 2).await;
        cluster.control(&["del", "k/config"]);
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
}
