//! The vendors of SQL servers, and their installations.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::geteuid;

use super::super::process::is_installed;
use super::{client, mariadb, mysql};

/// The vendor of a [`SqlServer`](super::SqlServer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SqlVendor {
    /// MariaDB: `mariadbd`, found on the path.
    MariaDb,
    /// MySQL, from the directory in the environment variable `LOCK_TESTKIT_MYSQL`. Without the
    /// variable, from `target/servers/mysql` of this workspace, where its scripts install MySQL.
    /// Otherwise `mysqld` from the path; on Debian that is MariaDB, which does not count.
    MySql,
}

#[derive(Debug)]
pub(super) struct Installation {
    /// The program and its first arguments.
    pub(super) command: Vec<String>,
    /// The version that the program prints.
    pub(super) version: String,
}

impl SqlVendor {
    /// Returns true if the server and the client for [`SqlServer::execute`] are installed.
    ///
    /// [`SqlServer::execute`]: super::SqlServer::execute
    pub fn is_available(self) -> bool {
        self.installation().is_some()
    }

    /// Returns the vendors to test on: always MariaDB, and MySQL if it is installed.
    ///
    /// If MySQL is missing, a warning is printed to the standard error, once per process and even
    /// if the test passes.
    ///
    /// ```no_run
    /// use lock_testkit::servers::{SqlServer, SqlVendor};
    ///
    /// for vendor in SqlVendor::available() {
    ///     assert_eq!(SqlServer::shared(vendor).execute("select 1"), "1");
    /// }
    /// ```
    pub fn available() -> Vec<Self> {
        static SAID: OnceLock<()> = OnceLock::new();

        if Self::MySql.is_available() {
            return vec![Self::MariaDb, Self::MySql];
        }
        SAID.get_or_init(|| {
            // Not with a print macro: the harness shows its output only for tests that fail.
            let _unheard = writeln!(
                std::io::stderr(),
                "NO MYSQL, so nothing is tested on it: {}",
                Self::MySql.advice()
            );
        });
        vec![Self::MariaDb]
    }

    /// Returns the installation; `None` if the server or the client is not installed.
    pub(super) fn installation(self) -> Option<&'static Installation> {
        static MARIADB: OnceLock<Option<Installation>> = OnceLock::new();
        static MYSQL: OnceLock<Option<Installation>> = OnceLock::new();

        let (found, find): (_, fn() -> _) = match self {
            Self::MariaDb => (&MARIADB, mariadb::find),
            Self::MySql => (&MYSQL, mysql::find),
        };
        let found = found.get_or_init(|| find().filter(|_| is_installed(client::PROGRAM)));
        found.as_ref()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
        }
    }

    /// Returns the instructions for installing the server.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::MariaDb => {
                "mariadbd, mariadb-install-db and mariadb have to be on the path: `apt-get install mariadb-server-core mariadb-client-core` brings them, and scripts/test installs whatever the tests need"
            }
            Self::MySql => {
                "scripts/test fetches it, or LOCK_TESTKIT_MYSQL names the directory where it is; its tests need the client mariadb as well (`apt-get install mariadb-client-core`)"
            }
        }
    }

    /// Returns the arguments that make a server small and isolated.
    pub(super) fn usual_arguments(self) -> Vec<String> {
        let both = [
            "--skip-name-resolve",
            "--skip-log-bin",
            "--innodb-buffer-pool-size=32M",
            "--innodb-buffer-pool-load-at-startup=OFF",
            "--innodb-buffer-pool-dump-at-shutdown=OFF",
            "--performance-schema=OFF",
            "--key-buffer-size=1M",
        ];
        // Servers refuse to run as root without this argument.
        let user = geteuid().is_root().then_some("--user=root");
        let own = match self {
            Self::MariaDb => mariadb::ARGUMENTS,
            Self::MySql => mysql::ARGUMENTS,
        };
        let all = both.iter().chain(&user).chain(own);
        all.map(|argument| (*argument).to_owned()).collect()
    }

    /// Returns the SQL statements for a new data directory.
    pub(super) fn first_statements(self) -> &'static str {
        match self {
            Self::MariaDb => mariadb::FIRST_STATEMENTS,
            Self::MySql => mysql::FIRST_STATEMENTS,
        }
    }

    /// Returns the command that creates the data directory `data` with the statements in `first`.
    pub(super) fn initialize(
        self,
        installation: &Installation,
        data: &Path,
        first: &Path,
    ) -> Command {
        match self {
            Self::MariaDb => mariadb::initialize(data, first),
            Self::MySql => mysql::initialize(installation, data, first),
        }
    }
}

/// Returns the version that `program` prints; `None` if it does not start.
pub(super) fn version(program: &[String]) -> Option<String> {
    let (program, first) = program.split_first()?;
    let output = Command::new(program)
        .args(first)
        .args(["--no-defaults", "--version"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}
