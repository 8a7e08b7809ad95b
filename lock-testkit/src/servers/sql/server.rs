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

/// A MariaDB or MySQL server of its own: no configuration file, a `root` without a password, and on
/// it an empty database `locks`. Whatever makes no server smaller is at its default.
///
/// Ready in about 0.2 s and 70 MB large (MariaDB), 0.7 s and 220 MB (MySQL). The first one on a
/// machine takes seconds longer; what that makes is kept for all others, in the temporary
/// directory.
///
/// ```no_run
/// use lock_testkit::servers::{SqlServer, SqlVendor};
///
/// let server = SqlServer::start(SqlVendor::MariaDb);
/// println!("{} is process {}", server.url(), server.pid());
/// server.execute("create table numbers (number int)");
/// server.freeze(); // it does not answer, and closes nothing
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
    /// When the server or the client `mariadb` is not installed, or it does not start.
    pub fn start(vendor: SqlVendor) -> Self {
        Self::start_with::<&str>(vendor, &[])
    }

    /// Starts a server with more command-line arguments, which win over the usual ones.
    ///
    /// # Panics
    ///
    /// When the server or the client `mariadb` is not installed, or it does not start with them.
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

    /// Starts a server whose wall clock can be [set](ServerProcess::set_clock_ahead), with more command-line
    /// arguments. It takes a little longer to read its clock.
    ///
    /// # Panics
    ///
    /// When the server, the client `mariadb` or `cc` is not installed, or the server does not start
    /// with the arguments.
    pub fn start_with_settable_clock<A: AsRef<str>>(vendor: SqlVendor, arguments: &[A]) -> Self {
        Self::try_ports(vendor, WallClock::Settable, &owned(arguments))
    }

    /// Starts a server that speaks TLS, on the same port, with whoever asks for it. Its certificate
    /// is for `localhost` and `127.0.0.1`, and clients need none. (MySQL speaks TLS anyway, with a
    /// certificate that nobody has signed.)
    ///
    /// More arguments win over the usual ones: `--require-secure-transport=ON` demands TLS from
    /// those who come over TCP, `--ssl-cert` and `--ssl-key` let it show another certificate. That a
    /// client has to show one of `authority` is demanded of a user: `create user … require x509`.
    ///
    /// # Panics
    ///
    /// When the server, the client `mariadb` or `openssl` is not installed, or the server does not
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

    /// Starts it on a port that nobody else takes meanwhile.
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

    /// The one server of its vendor in this process, started by the first call and living until the
    /// process ends.
    ///
    /// For tests that keep to names of their own, never freeze it and never look at all of it.
    pub fn shared(vendor: SqlVendor) -> &'static Self {
        static MARIADB: OnceLock<SqlServer> = OnceLock::new();
        static MYSQL: OnceLock<SqlServer> = OnceLock::new();

        let shared = match vendor {
            SqlVendor::MariaDb => &MARIADB,
            SqlVendor::MySql => &MYSQL,
        };
        shared.get_or_init(|| Self::start(vendor))
    }

    /// Who made it.
    pub fn vendor(&self) -> SqlVendor {
        self.vendor
    }

    /// Where it is, as drivers want it: `mysql://root@127.0.0.1:port/locks`. There is no password.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/locks", self.port())
    }

    /// Its Unix socket, in its directory.
    pub fn socket(&self) -> PathBuf {
        socket(self.directory())
    }

    /// Runs one or more statements in the database `locks`, as `root` and in a session of their own,
    /// which takes about 10 ms. Returns the rows as lines, with tabs between the columns.
    ///
    /// It waits as long as the statement does: for ever while the server is
    /// [frozen](ServerProcess::freeze).
    ///
    /// # Panics
    ///
    /// When the server refuses, or is not running.
    pub fn execute(&self, sql: &str) -> String {
        self.try_execute(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs the statements like [`execute`](Self::execute).
    ///
    /// # Errors
    ///
    /// What the client says, such as `ERROR 1205 (HY000) at line 1: Lock wait timeout exceeded; try
    /// restarting transaction`, also when the server is not running.
    pub fn try_execute(&self, sql: &str) -> Result<String, String> {
        client::execute(&self.socket(), sql)
    }

    /// Opens a session that stays, as `root` in the database `locks`.
    ///
    /// # Panics
    ///
    /// When the client does not start.
    pub fn session(&self) -> SqlSession {
        SqlSession::open(&self.socket())
    }

    /// The command-line client, about to log in as [`execute`](Self::execute) does. Statements are read from its
    /// standard input, and rows written to its standard output; an error ends it.
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

/// What is different for each server.
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
    // With the process id of a killed MySQL, which may be somebody else's by now. Absent at first.
    let _absent = std::fs::remove_file(directory.join("socket.lock"));
    let (program, first) = (&installation.command[0], &installation.command[1..]);
    let arguments = [first, arguments].concat();
    let mut process = Process::start(program, &arguments, directory, site.clock.as_ref())?;
    // Its log tells that the port is its own, and not that of a server which was there first.
    process.wait_until(|| {
        log(directory).contains("ready for connections") && client::greets(site.port)
    })?;
    Ok(process)
}
