//! A session that stays open.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::client;

/// How long statements may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Somebody's session on a [`SqlServer`](super::SqlServer), in the command-line client: what one statement does to it,
/// such as to begin a transaction, is there for the next. An error ends it; so does dropping it, with whatever
/// it had not committed.
///
/// ```no_run
/// use lock_testkit::servers::{SqlServer, SqlVendor};
///
/// let server = SqlServer::start(SqlVendor::MariaDb);
/// server.execute("create table numbers (number int); insert into numbers values (1)");
/// let mut session = server.session();
/// assert_eq!(session.run("begin; select number from numbers for update"), ["1"]);
/// drop(session); // and nobody has the row
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
                // Nobody reads any more when the session was dropped.
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

    /// Runs one or more statements, and returns their rows, with tabs between the columns.
    ///
    /// # Panics
    ///
    /// When the server refuses one, has ended the session, or takes more than 30 s.
    pub fn run(&mut self, sql: &str) -> Vec<String> {
        self.begin(sql);
        self.finish()
    }

    /// Has the client run statements, without waiting for them.
    ///
    /// # Panics
    ///
    /// When the session has ended.
    pub fn begin(&mut self, sql: &str) {
        self.begun += 1;
        let written = writeln!(self.statements, "{sql}; SELECT 'done {}';", self.begun);
        written.expect("the session is open");
    }

    /// Waits for what was begun last, and returns its rows.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run) does.
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
        // Killed and not asked, since it may be in the middle of a wait.
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
