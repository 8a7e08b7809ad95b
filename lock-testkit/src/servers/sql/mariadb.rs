//! The programs and settings of MariaDB.

use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use super::super::process::find as find_program;
use super::vendor::{Installation, version};

const INITIALIZER: &str = "mariadb-install-db";

/// A redo log of the usual size would be most of the data that is copied for a server.
const LOG_FILE_SIZE: &str = "--innodb-log-file-size=16M";

pub(super) const ARGUMENTS: &[&str] = &[LOG_FILE_SIZE, "--aria-pagecache-buffer-size=8M"];

/// Statements that run once. The initializer runs statements about users itself, and refuses them
/// here.
pub(super) const FIRST_STATEMENTS: &str = "CREATE DATABASE locks;\n";

pub(super) fn find() -> Option<Installation> {
    find_program(INITIALIZER)?;
    let mut command = vec![find_program("mariadbd")?.display().to_string()];
    let version = version(&command)?;
    command.push("--no-defaults".into());
    Some(Installation { command, version })
}

/// Returns the command that creates a data directory whose `root` needs no password.
pub(super) fn initialize(data: &Path, first: &Path) -> Command {
    let mut command = Command::new(INITIALIZER);
    command.args([
        "--no-defaults",
        "--skip-test-db",
        "--skip-name-resolve",
        "--auth-root-authentication-method=normal",
        LOG_FILE_SIZE,
    ]);
    if geteuid().is_root() {
        command.arg("--user=root");
    }
    command
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--extra-file={}", first.display()));
    command
}
