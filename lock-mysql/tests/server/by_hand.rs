//! Somebody else's session in the `mariadb` client.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use lock_testkit::servers::SqlServer;

use crate::{PROMPT, row};

/// A session that stays open; it ends, and its transaction with it, when it is dropped.
pub(crate) struct ByHand {
    client: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    asked: usize,
}

impl ByHand {
    pub(crate) fn start(server: &SqlServer) -> Self {
        let mut client = server
            .client_command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the mariadb client starts");
        let input = client.stdin.take().expect("it is piped");
        let output = BufReader::new(client.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nobody reads any more when the test is over.
                let _unread = sender.send(line);
            }
        });
        Self {
            client,
            input,
            lines,
            asked: 0,
        }
    }

    /// Begins a transaction that has locked the row of `key`, which is made if it is not there.
    pub(crate) fn locking(server: &SqlServer, key: &str) -> Self {
        let mut session = Self::start(server);
        session.lock(key);
        session
    }

    /// Locks the row of `key`, in the transaction that is open or in a new one.
    pub(crate) fn lock(&mut self, key: &str) {
        let row = row(key);
        self.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET autocommit = 0; INSERT INTO locks (k, token, expires) VALUES ({row}, 0, '2025-01-01') ON DUPLICATE KEY UPDATE ttl = ttl; SELECT token FROM locks WHERE k = {row} FOR UPDATE"));
    }

    /// Runs statements and returns their rows.
    pub(crate) fn run(&mut self, sql: &str) -> Vec<String> {
        self.begin(sql);
        self.finish()
    }

    /// Has the client run statements, without waiting for them.
    pub(crate) fn begin(&mut self, sql: &str) {
        self.asked += 1;
        let statements = format!("{sql}; SELECT 'done {}';\n", self.asked);
        let written = self.input.write_all(statements.as_bytes());
        written
            .and_then(|()| self.input.flush())
            .expect("the client reads");
    }

    /// Waits for what was begun last.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        let mark = format!("done {}", self.asked);
        let mut rows = Vec::new();
        loop {
            let line = self.lines.recv_timeout(PROMPT);
            let line = line.expect("the client runs the statements");
            if line == mark {
                return rows;
            }
            rows.push(line);
        }
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        // Killed and not asked, since it may be in the middle of a wait.
        if self.client.kill().is_ok() {
            let _status = self.client.wait();
        }
    }
}
