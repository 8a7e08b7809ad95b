//! `mariadbd` or `mysqld` as a child process.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::super::authority::Authority;
use super::super::process::{Process, log, owned};
use super::super::server::{ServerProcess, Site, WallClock};
use super::vendor::{Installation, SqlVendor};
use super::{SqlSession, client, template};

/// A private MariaDB or MySQL server with an empty database `locks`.
///
/// It has no configuration file, and a `root` without a password. All settings that do not make the
/// server smaller have their defaults.
///
/// MariaDB is ready in about 0.2 s and takes 70 MB, MySQL in 0.7 s and 220 MB. The first server on
/// a machine takes seconds longer. It creates a data directory, which is kept in the temporary
/// directory for all later servers.
///
/// ```no_run
/// use lock_testkit::servers::{SqlServer, SqlVendor};
///
/// let server = SqlServer::start(SqlVendor::MariaDb);
/// println!("{} is process {}", server.url(), server.pid());
/// server.execute("create table numbers (number int)");
/// server.freeze(); // no answers, and no closed connections
/// server.thaw();
/// server.kill(); // as a crash would
/// server.restart(); // with its data, on the same port
/// assert_eq!(server.execute("select count(*) from numbers"), "0");
/// ```
#[derive(Debug)]
pub struct SqlServer {
    process: ServerProcess,
    vendor: SqlVendor,
}

impl SqlServer {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If the server or the client `mariadb` is not installed, or the server does not start.
    pub fn start(vendor: SqlVendor) -> Self {
        Self::start_with::<&str>(vendor, &[])
    }

    /// Starts a server with additional command-line arguments, which override the usual arguments.
    ///
    /// # Panics
    ///
    /// If the server or the client `mariadb` is not installed, or the server does not start.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_testkit::servers::{SqlServer, SqlVendor};
    ///
    /// let crowded = SqlServer::start_with(SqlVendor::MariaDb, &["--max-connections=10"]);
    /// let impatient = SqlServer::start_with(SqlVendor::MySql, &["--innodb-lock-wait-timeout=1"]);
    /// ```
    pub fn start_with<A: AsRef<str>>(vendor: SqlVendor, arguments: &[A]) -> Self {
        Self::try_ports(vendor, WallClock::Real, &owned(arguments))
    }

    /// Starts a server with a wall clock that a test can [set](ServerProcess::set_clock_ahead).
    ///
    /// Additional arguments override the usual arguments. Reading the clock takes the server a
    /// little longer.
    ///
    /// # Panics
    ///
    /// If the server, the client `mariadb` or `cc` is not installed, or the server does not start
    /// with the arguments.
    pub fn start_with_settable_clock<A: AsRef<str>>(vendor: SqlVendor, arguments: &[A]) -> Self {
        Self::try_ports(vendor, WallClock::Settable, &owned(arguments))
    }

    /// Starts a server that offers TLS on its port.
    ///
    /// Its certificate is for `localhost` and `127.0.0.1`; clients need no certificate. MySQL
    /// offers TLS in any case, with a certificate of no known authority.
    ///
    /// Additional arguments override the usual arguments. `--require-secure-transport=ON` requires
    /// TLS of TCP clients. `--ssl-cert` and `--ssl-key` set another server certificate. To require
    /// a client certificate of `authority`, create a user: `create user … require x509`.
    ///
    /// # Panics
    ///
    /// If the server, the client `mariadb` or `openssl` is not installed, or the server does not
    /// start with the arguments.
    pub fn start_with_tls<A: AsRef<str>>(
        vendor: SqlVendor,
        authority: &Authority,
        arguments: &[A],
    ) -> Self {
        let own = authority.issue("DNS:localhost,IP:127.0.0.1", 1);
        let tls = [
            format!("--ssl-ca={}", authority.ca().display()),
            format!("--ssl-cert={}", own.cert.display()),
            format!("--ssl-key={}", own.key.display()),
        ];
        let arguments = [tls.to_vec(), owned(arguments)].concat();
        Self::try_ports(vendor, WallClock::Real, &arguments)
    }

    /// Starts the server on a port that no other process takes.
    fn try_ports(vendor: SqlVendor, clock: WallClock, more: &[String]) -> Self {
        let installation = installation(vendor);
        let (process, ()) = ServerProcess::start(vendor.name(), clock, |site| {
            let here = site.directory();
            template::copy_to(&here.join("data"), vendor, installation);
            let arguments = [own_arguments(here, site.port), vendor.usual_arguments()].concat();
            let arguments = [arguments, more.to_vec()].concat();
            let start = move |site: &Site| start_process(installation, &arguments, site);
            (Box::new(start), ())
        });
        Self { process, vendor }
    }

    /// Returns the shared server of a vendor in this process.
    ///
    /// The first call starts it, and it runs until the process ends. Tests must use names of their
    /// own, never freeze it, and never read all of its tables.
    pub fn shared(vendor: SqlVendor) -> &'static Self {
        static MARIADB: OnceLock<SqlServer> = OnceLock::new();
        static MYSQL: OnceLock<SqlServer> = OnceLock::new();

        let shared = match vendor {
            SqlVendor::MariaDb => &MARIADB,
            SqlVendor::MySql => &MYSQL,
        };
        shared.get_or_init(|| Self::start(vendor))
    }

    /// Returns the vendor of the server.
    pub fn vendor(&self) -> SqlVendor {
        self.vendor
    }

    /// Returns the URL, which has no password: `mysql://root@127.0.0.1:port/locks`.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/locks", self.port())
    }

    /// Returns the Unix socket, which is in the directory of the server.
    pub fn socket(&self) -> PathBuf {
        socket(self.directory())
    }

    /// Runs statements as `root` in the database `locks`, and returns the rows as lines.
    ///
    /// Tabs separate the columns. Each call has a session of its own, which takes about 10 ms. The
    /// call waits as long as the statements do: for ever while the server is
    /// [frozen](ServerProcess::freeze).
    ///
    /// # Panics
    ///
    /// If the server refuses a statement, or is not running.
    pub fn execute(&self, sql: &str) -> String {
        self.try_execute(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs statements like [`execute`](Self::execute), but returns an error instead of a panic.
    ///
    /// # Errors
    ///
    /// The message of the client, for example `ERROR 1205 (HY000) at line 1: Lock wait timeout
    /// exceeded; try restarting transaction`. Also if the server is not running.
    pub fn try_execute(&self, sql: &str) -> Result<String, String> {
        client::execute(&self.socket(), sql)
    }

    /// Opens a session as `root` in the database `locks`.
    ///
    /// # Panics
    ///
    /// If the client does not start.
    pub fn session(&self) -> SqlSession {
        SqlSession::open(&self.socket())
    }

    /// Returns the command-line client, which logs in like [`execute`](Self::execute).
    ///
    /// It reads statements from its standard input, and writes rows to its standard output. An
    /// error ends it.
    pub fn client_command(&self) -> Command {
        client::command(&self.socket())
    }
}

impl Deref for SqlServer {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.process
    }
}

fn installation(vendor: SqlVendor) -> &'static Installation {
    let installation = vendor.installation();
    installation.unwrap_or_else(|| panic!("{vendor:?} is not there: {}", vendor.advice()))
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("socket")
}

/// Returns the arguments that differ between servers.
fn own_arguments(directory: &Path, port: u16) -> Vec<String> {
    let place = directory.display();
    vec![
        format!("--datadir={place}/data"),
        format!("--tmpdir={place}"),
        format!("--pid-file={place}/pid"),
        format!("--socket={}", socket(directory).display()),
        format!("--port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
    ]
}

fn start_process(
    installation: &Installation,
    arguments: &[String],
    site: &Site,
) -> io::Result<Process> {
    let directory = site.directory();
    // The file has the process id of a killed MySQL, which another process may have now. At first
    // there is no file.
    let _absent = std::fs::remove_file(directory.join("socket.lock"));
    let (program, first) = (&installation.command[0], &installation.command[1..]);
    let arguments = [first, arguments].concat();
    let mut process = Process::start(program, &arguments, directory, site.clock.as_ref())?;
    // The log shows that the port belongs to this server, not to a server that was there first.
    process.wait_until(|| {
        log(directory).contains("ready for connections") && client::greets(site.port)
    })?;
    Ok(process)
}
