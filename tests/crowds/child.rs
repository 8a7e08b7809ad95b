//! A process with waiters: another run of this test program.
//!
//! Its environment and the lines on its standard input are its orders.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use lock_testkit::measure::memory;
use serde_json::{Value, json};

use crate::waiting::{Crowd, Kind};

const PART: &str = "LOCK_CROWD_PART";

/// The mark of an answer, among the output of the test harness.
const ANSWER: &str = "answer ";

/// Time limit for the turns of a crowd.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// Another process with waiters. Dropping this value kills it.
pub(crate) struct Child {
    process: std::process::Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Child {
    /// Starts `many` waiters of `kind` on the store at `url`.
    ///
    /// If `url` is empty, it starts tasks that only wait for a wake-up.
    pub(crate) fn start(url: &str, kind: Kind, many: usize) -> Self {
        let part = json!({ "url": url, "kind": kind.name(), "many": many });
        let program = std::env::current_exe().expect("a running program has a path");
        let mut process = Command::new(program)
            .args(["--exact", "child::part", "--nocapture", "--quiet"])
            .env(PART, part.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the system starts a process");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, said }
    }

    /// Waits for the next answer of the child.
    pub(crate) fn answer(&mut self) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self
                .said
                .read_line(&mut line)
                .expect("the child can be read");
            assert!(read > 0, "the child has ended without an answer");
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return serde_json::from_str(answer.trim()).expect("an answer is JSON");
            }
        }
    }

    /// Asks for the next answer.
    pub(crate) fn ask(&mut self) {
        let mut input = self.process.stdin.as_ref().expect("piped");
        input.write_all(b"\n").expect("the child reads");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// The child's work; does nothing in a program that was not started as a child.
#[test]
fn part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let part: Value = serde_json::from_str(&part).expect("a part is JSON");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(wait(&part));
    runtime.shutdown_background();
}

async fn wait(part: &Value) {
    let url = part["url"].as_str().expect("text");
    let kind = Kind::named(part["kind"].as_str().expect("text"));
    let many = part["many"].as_u64().expect("a number") as usize;
    if url.is_empty() {
        let before = resident();
        let _crowd = Crowd::of_notified(many).await;
        tell(&json!({ "bytes": resident().saturating_sub(before) }));
        return;
    }
    let locks = polylock::connect(url).await.expect("the store is there");
    // The memory of the first acquisition, which sets up the client, must not count for the
    // waiters.
    let first = locks.acquire(crate::crowd::warm_up(kind)).await;
    let first = first.expect("the store answers").expect("a free key");
    first.release().await.expect("the store answers");
    let before = resident();
    let crowd = Crowd::of_waiters(&locks, kind, many).await;
    tell(&json!({ "waiting": many }));
    listen().await;
    tell(&json!({ "bytes": resident().saturating_sub(before) }));
    listen().await;
    tell(&crowd.finish(LIMIT).await);
}

/// Waits for a line of the parent.
async fn listen() {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    let read = read.await.expect("no panic").expect("the parent is there");
    assert!(read > 0, "the parent is gone");
}

fn tell(answer: &Value) {
    let mut output = std::io::stdout();
    writeln!(output, "\n{ANSWER}{answer}").expect("the parent reads");
    output.flush().expect("the parent reads");
}

fn resident() -> u64 {
    memory(std::process::id()).expect("Linux tells it")
}
