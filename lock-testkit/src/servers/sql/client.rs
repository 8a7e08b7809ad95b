//! Access to a server without a driver.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// MariaDB's command-line client, which works with MySQL as well.
pub(super) const PROGRAM: &str = "mariadb";

/// The protocol version of both vendors; a server that refuses sends 0xff instead.
const PROTOCOL: u8 = 10;

const GREETING_LIMIT: Duration = Duration::from_secs(1);

/// Returns the client as `root` in the database `locks`, printing only rows, each at once.
pub(super) fn command(socket: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "--no-defaults",
            "--protocol=socket",
            // TLS takes time, and protects nothing here.
            "--skip-ssl",
            "--user=root",
            "--skip-column-names",
            "--batch",
            "--unbuffered",
            "--database=locks",
        ])
        .arg(format!("--socket={}", socket.display()))
        .env_remove("MYSQL_PWD");
    command
}

/// Runs `sql`; returns its rows, or the error that the client prints.
pub(super) fn execute(socket: &Path, sql: &str) -> Result<String, String> {
    let output = command(socket)
        .arg(format!("--execute={sql}"))
        .output()
        .unwrap_or_else(|error| panic!("{PROGRAM} does not start: {error}"));
    if output.status.success() {
        let rows = String::from_utf8_lossy(&output.stdout);
        return Ok(rows.trim_end_matches('\n').to_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    // The client may print the statement before the error.
    let error = complaint.find("\nERROR ").map_or(0, |before| before + 1);
    Err(complaint[error..].trim_end().to_owned())
}

/// Returns true if the server at `port` sends a greeting.
pub(super) fn greets(port: u16) -> bool {
    let mut greeting = [0; 5];
    let read = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), GREETING_LIMIT)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(GREETING_LIMIT))?;
            stream.read_exact(&mut greeting)
        });
    // A length of three bytes and a sequence number come before the version.
    read.is_ok() && greeting[4] == PROTOCOL
}
