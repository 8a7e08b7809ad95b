//! A session on a server, which stays open.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::client;

/// Maximum time for statements.
const LIMIT: Duration = Duration::from_secs(30);

/// A session on a [`SqlServer`](super::SqlServer), in the command-line client.
///
/// The effects of a statement, such as a transaction that it begins, stay for the next statement.
/// An error ends the session. Dropping it ends the session as well, without a commit.
///
/// ```no_run
/// use lock_testkit::servers::{SqlServer, SqlVendor};
///
/// let server = SqlServer::start(SqlVendor::MariaDb);
/// server.execute("create table numbers (number int); insert into numbers values (1)");
/// let mut session = server.session();
/// assert_eq!(session.run("begin; select number from numbers for update"), ["1"]);
/// drop(session); // which frees the row
/// ```
pub struct SqlSession {
    client: Child,
    statements: ChildStdin,
    lines: Receiver<String>,
    begun: usize,
}

impl SqlSession {
    pub(super) fn open(socket: &Path) -> Self {
        let mut client = client::command(socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", client::PROGRAM));
        let statements = client.stdin.take().expect("it is a pipe");
        let rows = BufReader::new(client.stdout.take().expect("it is a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in rows.lines().map_while(Result::ok) {
                // The receiver is gone when the session was dropped.
                let _unread = sender.send(line);
            }
        });
        Self {
            client,
            statements,
            lines,
            begun: 0,
        }
    }

    /// Runs statements and returns their rows, with tabs between the columns.
    ///
    /// # Panics
    ///
    /// If the server refuses a statement, has ended the session, or takes more than 30 s.
    pub fn run(&mut self, sql: &str) -> Vec<String> {
        self.begin(sql);
        self.finish()
    }

    /// Starts statements in the client, without waiting for them.
    ///
    /// # Panics
    ///
    /// If the session has ended.
    pub fn begin(&mut self, sql: &str) {
        self.begun += 1;
        let written = writeln!(self.statements, "{sql}; SELECT 'done {}';", self.begun);
        written.expect("the session is open");
    }

    /// Waits for the statements that were begun last, and returns their rows.
    ///
    /// # Panics
    ///
    /// Like [`run`](Self::run).
    pub fn finish(&mut self) -> Vec<String> {
        let mark = format!("done {}", self.begun);
        let mut rows = Vec::new();
        loop {
            let line = self.lines.recv_timeout(LIMIT);
            let line = line.expect("statements that the server runs in time");
            if line == mark {
                return rows;
            }
            rows.push(line);
        }
    }
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        // Kill the client, since it may be waiting for the server.
        if let Err(error) = self.client.kill().and_then(|()| self.client.wait()) {
            eprintln!("a client is left: {error}");
        }
    }
}

impl fmt::Debug for SqlSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlSession")
            .field("client", &self.client.id())
            .finish_non_exhaustive()
    }
}
