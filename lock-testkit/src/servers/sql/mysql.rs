//! The programs and settings of MySQL.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::process::find as find_program;
use super::vendor::{Installation, SqlVendor, version};

/// The environment variable with the directory of MySQL.
const DIRECTORY: &str = "LOCK_TESTKIT_MYSQL";

/// The directory in which the scripts of the workspace install MySQL.
const USUAL_DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/servers/mysql");

pub(super) const ARGUMENTS: &[&str] = &[
    "--mysqlx=OFF",
    "--secure-file-priv=NULL",
    "--innodb-redo-log-capacity=16M",
    "--innodb-log-buffer-size=1M",
];

/// Statements that run once, one per line. Without name resolution, TCP clients have only
/// addresses.
pub(super) const FIRST_STATEMENTS: &str = "\
CREATE USER root@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE locks;
";

pub(super) fn find() -> Option<Installation> {
    let named = std::env::var_os(DIRECTORY).filter(|directory| !directory.is_empty());
    let directory = named.map_or_else(|| USUAL_DIRECTORY.into(), PathBuf::from);
    let fetched = directory.canonicalize().ok();
    let fetched = fetched.filter(|directory| directory.join("run").is_file());
    let mut command = match &fetched {
        Some(directory) => vec![directory.join("run").display().to_string(), "mysqld".into()],
        None => vec![find_program("mysqld")?.display().to_string()],
    };
    let version = version(&command).filter(|version| !version.contains("MariaDB"))?;
    command.push("--no-defaults".into());
    command.extend(fetched.iter().flat_map(|directory| places(directory)));
    Some(Installation { command, version })
}

/// Returns the options with the paths of a server that is installed in `directory`.
fn places(directory: &Path) -> [String; 4] {
    let usr = directory.join("usr");
    let usr = usr.display();
    [
        format!("--basedir={usr}"),
        format!("--lc-messages-dir={usr}/share/mysql"),
        format!("--character-sets-dir={usr}/share/mysql/charsets"),
        format!("--plugin-dir={usr}/lib/mysql/plugin"),
    ]
}

/// Returns the command that creates a data directory whose `root` needs no password.
pub(super) fn initialize(installation: &Installation, data: &Path, first: &Path) -> Command {
    let mut command = Command::new(&installation.command[0]);
    command
        .args(&installation.command[1..])
        .args(SqlVendor::MySql.usual_arguments())
        .arg("--initialize-insecure")
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--init-file={}", first.display()));
    command
}
