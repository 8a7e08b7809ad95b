//! Curator's `InterProcessMutex` and this library on the same locks.
//!
//! Both exclude each other, and their waiters are served in order of arrival.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use lock_core::{DistributedLockExt, Mode};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use tokio::time::timeout;

use crate::{PROMPT, admin, children, connect, request, take};

/// Debian's directory for Java libraries.
const LIBRARIES: &str = "/usr/share/java";

const NEEDED: [&str; 6] = [
    "curator-client.jar",
    "curator-framework.jar",
    "curator-recipes.jar",
    "guava.jar",
    "slf4j-simple.jar",
    "zookeeper.jar",
];

struct Curator {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Curator {
    /// Starts Curator; prints a notice and returns `None` if Curator or a Java compiler is missing.
    fn start(server: &ZooKeeperServer, lock: &str) -> Option<Self> {
        let libraries = NEEDED.map(|library| format!("{LIBRARIES}/{library}"));
        let missing = libraries
            .iter()
            .find(|library| !Path::new(library).is_file());
        let compiler = Command::new("javac").arg("-version").output();
        if missing.is_some() || compiler.is_err() {
            eprintln!(
                "NO CURATOR, so nothing is tested with it: install libcurator-recipes-java and a JDK"
            );
            return None;
        }
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/Mutex.java");
        let mut process = Command::new("java")
            .args(["-cp", &libraries.join(":"), source, &server.address(), lock])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it was there");
        let says = BufReader::new(process.stdout.take().expect("piped"));
        let mut curator = Self { process, says };
        assert_eq!(curator.says(), "ready");
        Some(curator)
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

impl Drop for Curator {
    fn drop(&mut self) {
        self.process.kill().expect("our child");
        self.process.wait().expect("our child");
    }
}

#[test]
fn either_excludes_the_other_and_both_are_served_in_order() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/curator").await;
        let Some(mut curator) = Curator::start(server, "/curator/k") else {
            return;
        };
        assert_eq!(curator.ask("try"), "true");
        lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
        assert_eq!(curator.ask("release"), "released");
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(5).unwrap()] {
            let guard = take(&locks, request("k", mode)).await;
            assert_eq!(curator.ask("try"), "false", "beside {mode:?}");
            guard.release().await.unwrap();
        }
        let admin = admin(server).await;
        let length = async || children(&admin, "/curator/k").await.len();
        let guard = take(&locks, request("k", Mode::Exclusive)).await;
        curator.tell("lock");
        eventually(PROMPT, "Curator is second", || async {
            length().await == 2
        })
        .await;
        let mut third = Box::pin(locks.lock("k"));
        let joining = async {
            eventually(PROMPT, "we are third", || async { length().await == 3 }).await;
        };
        tokio::select! {
            early = &mut third => panic!("{early:?} has overtaken"),
            () = joining => {}
        }
        guard.release().await.unwrap();
        assert_eq!(curator.says(), "true");
        let early = timeout(PROMPT / 50, &mut third).await;
        lock_testkit::assert_excluded!(early.is_err(), "{early:?} beside Curator");
        assert_eq!(curator.ask("release"), "released");
        let last = timeout(PROMPT, third).await.expect("woken by Curator");
        last.unwrap().release().await.unwrap();
    });
}
