//! The schedulers: processes of both kinds share the planned times of one job.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use lock_testkit::servers::RedisServer;

/// A scheduler that ends with the test.
struct Scheduler(Child);

impl Scheduler {
    /// Starts a process that sends the lines of its job.
    fn start(kind: &str, url: &str, lines: Sender<String>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_jobs"))
            .args(["schedule", "--scheduler", kind, url])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = child.stdout.take().expect("it is piped");
        thread::spawn(move || {
            let mut read = BufReader::new(output).lines().map_while(Result::ok);
            read.try_for_each(|line| lines.send(line))
        });
        Self(child)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        killed.expect("it can be killed");
    }
}

#[test]
fn each_planned_time_has_one_run_with_both_schedulers() {
    let server = RedisServer::start();
    for kinds in [
        ["tokio-cron-scheduler"; 2],
        ["apalis"; 2],
        ["tokio-cron-scheduler", "apalis"],
    ] {
        let (sender, lines) = channel();
        let _schedulers = kinds.map(|kind| Scheduler::start(kind, &server.url(), sender.clone()));
        let runs: Vec<String> = lines.iter().take(4).collect();
        let planned: BTreeSet<&str> = runs
            .iter()
            .map(|line| line.split(',').next().expect("a planned time"))
            .collect();
        assert_eq!(planned.len(), runs.len(), "{kinds:?}: {runs:?}");
    }
}
