//! A session by hand: the client, kept open.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use lock_testkit::servers::{SqlServer, SqlVendor};

/// A client that stays.
pub(crate) struct Session {
    client: Child,
    statements: ChildStdin,
    rows: BufReader<ChildStdout>,
}

impl Session {
    pub(crate) fn open(server: &SqlServer) -> Self {
        let mut client = server
            .client_command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client starts");
        Self {
            statements: client.stdin.take().expect("it is a pipe"),
            rows: BufReader::new(client.stdout.take().expect("it is a pipe")),
            client,
        }
    }

    /// Runs statements of which one gives one row, and returns that.
    pub(crate) fn ask(&mut self, statements: &str) -> String {
        writeln!(self.statements, "{statements}").expect("the client lives");
        let mut row = String::new();
        self.rows.read_line(&mut row).expect("the client lives");
        row.trim_end().to_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.client.kill().and_then(|()| self.client.wait()) {
            eprintln!("a client is left: {error}");
        }
    }
}

#[test]
fn a_session_by_hand_holds_its_locks() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::shared(vendor);
        server.execute("create table held (id int primary key); insert into held values (1)");
        let mut session = Session::open(server);
        assert_eq!(
            session.ask("begin; select id from held where id = 1 for update;"),
            "1"
        );
        let refused = "select id from held where id = 1 for update nowait";
        let error = server.try_execute(refused).unwrap_err();
        let code = match vendor {
            SqlVendor::MariaDb => "ERROR 1205 ",
            SqlVendor::MySql => "ERROR 3572 ",
        };
        assert!(error.starts_with(code), "{error}");
        assert_eq!(session.ask("commit; select 'done';"), "done");
        assert_eq!(server.execute(refused), "1");
    }
}
