//! Which of the two it is, and whether it is there.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::geteuid;

use super::super::process::is_installed;
use super::{client, mariadb, mysql};

/// Who made a [`SqlServer`](super::SqlServer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SqlVendor {
    /// MariaDB: `mariadbd`, found on the path.
    MariaDb,
    /// MySQL: in the directory that the environment's `LOCK_TESTKIT_MYSQL` names, else in
    /// `target/servers/mysql` of this workspace, where its scripts put it, else `mysqld` on the path
    /// (which on Debian is MariaDB's, and then does not count).
    MySql,
}

/// A server that is installed.
#[derive(Debug)]
pub(super) struct Installation {
    /// The program and the arguments that have to come first.
    pub(super) command: Vec<String>,
    /// What the program says that it is.
    pub(super) version: String,
}

impl SqlVendor {
    /// Whether its server is installed, and the client that [`SqlServer::execute`] needs.
    ///
    /// [`SqlServer::execute`]: super::SqlServer::execute
    pub fn is_available(self) -> bool {
        self.installation().is_some()
    }

    /// Those that tests have to run on: always MariaDB, and MySQL when it is there.
    ///
    /// When it is not, it says so on the standard error output, once a process and also in tests
    /// that pass.
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
            // Not by a macro: what those print in a test is shown only when it fails.
            let _unheard = writeln!(
                std::io::stderr(),
                "NO MYSQL, so nothing is tested on it: {}",
                Self::MySql.advice()
            );
        });
        vec![Self::MariaDb]
    }

    /// Its server; `None` when that, or the client, is not installed.
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

    /// Its name in file names and messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
        }
    }

    /// What to do when it is not installed.
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

    /// What keeps a server small and to itself.
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
        // Servers refuse to run as root unless they are told to.
        let user = geteuid().is_root().then_some("--user=root");
        let own = match self {
            Self::MariaDb => mariadb::ARGUMENTS,
            Self::MySql => mysql::ARGUMENTS,
        };
        let all = both.iter().chain(&user).chain(own);
        all.map(|argument| (*argument).to_owned()).collect()
    }

    /// What a new data directory gets, as SQL.
    pub(super) fn first_statements(self) -> &'static str {
        match self {
            Self::MariaDb => mariadb::FIRST_STATEMENTS,
            Self::MySql => mysql::FIRST_STATEMENTS,
        }
    }

    /// What makes a data directory at `data`, which runs the statements in the file `first`.
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

/// What `program` says that it is; `None` when it does not start.
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
