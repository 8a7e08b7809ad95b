//! kazoo's `Lock`, with a pattern for the claims of this library, on the same locks.
//!
//! Both exclude each other, and their waiters are served in order of arrival.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use lock_core::{DistributedLockExt, Mode};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use tokio::time::timeout;

use crate::{PROMPT, admin, children, connect, request, take};

/// Debian's interpreter, which finds Debian's packages.
const PYTHON: &str = "/usr/bin/python3";

const SCRIPT: &str = r#"
import sys
from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1])
client.start()
lock = client.Lock(sys.argv[2], "kazoo", extra_lock_patterns=["-lock-"])
print("ready", flush=True)
for command in sys.stdin:
    if command == "try\n":
        print(lock.acquire(blocking=False), flush=True)
    elif command == "lock\n":
        print(lock.acquire(), flush=True)
    else:
        lock.release()
        print("released", flush=True)
"#;

struct Kazoo {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Kazoo {
    /// Starts kazoo; prints a notice and returns `None` if kazoo is missing.
    fn start(server: &ZooKeeperServer, lock: &str) -> Option<Self> {
        let is_there = Command::new(PYTHON)
            .args(["-c", "import kazoo"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !is_there {
            eprintln!("NO KAZOO, so nothing is tested with it: install python3-kazoo");
            return None;
        }
        let mut process = Command::new(PYTHON)
            .args(["-c", SCRIPT, &server.address(), lock])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was there");
        let says = BufReader::new(process.stdout.take().expect("piped"));
        let mut kazoo = Self { process, says };
        assert_eq!(kazoo.says(), "ready");
        Some(kazoo)
    }

    fn tell(&mut self, command: &str) {
        let input = self.process.stdin.as_mut().expect("piped");
        writeln!(input, "{command}").expect("it listens");
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it talks");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.says()
    }
}

impl Drop for Kazoo {
    fn drop(&mut self) {
        // The script would also end with its standard input.
        self.process.kill().expect("our child");
        self.process.wait().expect("our child");
    }
}

#[test]
fn either_excludes_the_other() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/kazoo").await;
        let Some(mut kazoo) = Kazoo::start(server, "/kazoo/k") else {
            return;
        };
        assert_eq!(kazoo.ask("lock"), "True");
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(5).unwrap()] {
            let tried =
                lock_core::DistributedLock::acquire(&locks, request("k", mode).without_waiting());
            lock_testkit::assert_excluded!(tried.await.unwrap().is_none(), "{mode:?} beside kazoo");
        }
        assert_eq!(kazoo.ask("release"), "released");
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(5).unwrap()] {
            let guard = take(&locks, request("k", mode)).await;
            assert_eq!(kazoo.ask("try"), "False", "beside {mode:?}");
            guard.release().await.unwrap();
            assert_eq!(kazoo.ask("try"), "True");
            assert_eq!(kazoo.ask("release"), "released");
        }
    });
}

#[test]
fn both_are_served_in_the_order_in_which_they_came() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/mixed").await;
        let admin = admin(server).await;
        let length = async || children(&admin, "/mixed/k").await.len();
        let guard = take(&locks, request("k", Mode::Exclusive)).await;
        let Some(mut kazoo) = Kazoo::start(server, "/mixed/k") else {
            return;
        };
        kazoo.tell("lock");
        eventually(PROMPT, "kazoo is second", || async { length().await == 2 }).await;
        let mut third = Box::pin(locks.lock("k"));
        let joining = async {
            eventually(PROMPT, "we are third", || async { length().await == 3 }).await;
        };
        tokio::select! {
            early = &mut third => panic!("{early:?} has overtaken"),
            () = joining => {}
        }
        guard.release().await.unwrap();
        assert_eq!(kazoo.says(), "True");
        let early = timeout(PROMPT / 50, &mut third).await;
        lock_testkit::assert_excluded!(early.is_err(), "{early:?} beside kazoo");
        assert_eq!(kazoo.ask("release"), "released");
        let last = timeout(PROMPT, third).await.expect("woken by kazoo");
        last.unwrap().release().await.unwrap();
    });
}
