//! `redis-server` as a child process.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::authority::Authority;
use super::clock::Clock;
use super::ground;
use super::port::{ATTEMPTS, free_port};
use super::process::{Process, is_installed, log, owned};
use super::resp::RespClient;

const PROGRAM: &str = "redis-server";

/// A Redis server of its own: no persistence, no configuration file, nothing on it.
///
/// Ready in about 15 ms, 12 MB large.
///
/// ```no_run
/// use lock_testkit::servers::RedisServer;
///
/// let server = RedisServer::start();
/// println!("{} is process {}", server.url(), server.pid());
/// server.freeze(); // it does not answer, and closes nothing
/// server.thaw();
/// server.kill(); // as a crash would
/// server.restart(); // empty, on the same port
/// ```
#[derive(Debug)]
pub struct RedisServer {
    // Declared first, so dropped first: the process goes before its directory.
    process: Mutex<Process>,
    directory: TempDir,
    clock: Option<Clock>,
    port: u16,
    tls_port: Option<u16>,
    arguments: Vec<String>,
}

impl RedisServer {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// When `redis-server` is not installed or does not start.
    pub fn start() -> Self {
        Self::start_with::<&str>(&[])
    }

    /// Starts a server with more command-line arguments, which win over the usual ones.
    ///
    /// # Panics
    ///
    /// When `redis-server` is not installed or does not start with them.
    ///
    /// ```no_run
    /// use lock_testkit::servers::RedisServer;
    ///
    /// let with_password = RedisServer::start_with(&["--requirepass", "secret"]);
    /// let with_user = RedisServer::start_with(&["--user", "locker", "on", ">secret", "~*", "+@all"]);
    /// let kept = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    /// ```
    pub fn start_with<A: AsRef<str>>(arguments: &[A]) -> Self {
        Self::try_ports(|_| None, || (None, owned(arguments)))
    }

    /// Starts a server whose wall clock can be [set](Self::set_clock_ahead), with more command-line
    /// arguments. It takes a little longer to read its clock.
    ///
    /// # Panics
    ///
    /// When `redis-server` or `cc` is not installed, or the server does not start with the
    /// arguments.
    pub fn start_with_settable_clock<A: AsRef<str>>(arguments: &[A]) -> Self {
        let clock = |directory: &Path| Some(Clock::new(directory));
        Self::try_ports(clock, || (None, owned(arguments)))
    }

    /// Starts a server that speaks TLS on a port of its own, besides the plain one that
    /// [`client`](Self::client) looks at it through. Its certificate is for `localhost` and
    /// `127.0.0.1`, and clients need none.
    ///
    /// More arguments win over the usual ones: `--tls-auth-clients yes` demands certificates of
    /// `authority` from clients, `--tls-cert-file` and `--tls-key-file` let it show another one.
    ///
    /// # Panics
    ///
    /// When `redis-server` or `openssl` is not installed, or the server does not start with the
    /// arguments.
    pub fn start_with_tls<A: AsRef<str>>(authority: &Authority, arguments: &[A]) -> Self {
        let own = authority.issue("DNS:localhost,IP:127.0.0.1", 1);
        let more = || {
            let tls_port = free_port();
            let tls = [
                "--tls-port".to_owned(),
                tls_port.to_string(),
                "--tls-cert-file".to_owned(),
                own.cert.display().to_string(),
                "--tls-key-file".to_owned(),
                own.key.display().to_string(),
                "--tls-ca-cert-file".to_owned(),
                authority.ca().display().to_string(),
                "--tls-auth-clients".to_owned(),
                "no".to_owned(),
            ];
            (Some(tls_port), [tls.to_vec(), owned(arguments)].concat())
        };
        Self::try_ports(|_| None, more)
    }

    /// Starts it on ports that nobody else takes meanwhile; `more` gives the TLS port and arguments.
    fn try_ports(
        clock: fn(&Path) -> Option<Clock>,
        more: impl Fn() -> (Option<u16>, Vec<String>),
    ) -> Self {
        assert!(
            is_installed(PROGRAM),
            "{PROGRAM} is not on the path: `apt-get install redis-server` brings it, and scripts/test installs whatever the tests need"
        );
        for _ in 0..ATTEMPTS {
            let (directory, port) = (ground::directory(PROGRAM), free_port());
            let (tls_port, more) = more();
            let arguments = [usual_arguments(port), more].concat();
            let clock = clock(directory.path());
            match start_process(&arguments, directory.path(), clock.as_ref(), port) {
                Ok(process) => {
                    return Self {
                        process: Mutex::new(process),
                        directory,
                        clock,
                        port,
                        tls_port,
                        arguments,
                    };
                }
                Err(_) if log(directory.path()).contains("Address already in use") => {}
                Err(error) => panic!(
                    "{PROGRAM} does not start: {error}\n{}",
                    log(directory.path())
                ),
            }
        }
        panic!("{PROGRAM} does not start: {ATTEMPTS} ports were taken by others meanwhile");
    }

    /// The one server of this process, started by the first call and living until the process ends.
    ///
    /// For tests that keep to names of their own, never freeze it and never look at all of it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();

        SHARED.get_or_init(Self::start)
    }

    /// Where it is, as drivers want it: `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it speaks TLS, as drivers want it: `rediss://127.0.0.1:port`; `None` when it does not.
    pub fn tls_url(&self) -> Option<String> {
        self.tls_port
            .map(|port| format!("rediss://127.0.0.1:{port}"))
    }

    /// Its plain port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id; another one after [`restart`](Self::restart).
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Its directory, with the file `log` and whatever it persists.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A new connection for looking at it.
    ///
    /// # Panics
    ///
    /// When the server is not running.
    pub fn client(&self) -> RespClient {
        RespClient::connect(self.port).expect("the server is running")
    }

    /// Stops it where it stands: connections stay open, and nothing is answered. Returns when it
    /// has stopped.
    ///
    /// # Panics
    ///
    /// When the server was [killed](Self::kill).
    pub fn freeze(&self) {
        self.process().freeze();
    }

    /// Lets it go on after [`freeze`](Self::freeze); harmless when it is not frozen.
    ///
    /// # Panics
    ///
    /// When the server was [killed](Self::kill).
    pub fn thaw(&self) {
        self.process().thaw();
    }

    /// Sets its wall clock ahead of the machine's; its monotonic clock stays as it is.
    ///
    /// # Panics
    ///
    /// When it was not [started so](Self::start_with_settable_clock).
    pub fn set_clock_ahead(&self, by: Duration) {
        self.settable_clock().set_ahead(by);
    }

    /// Sets its wall clock behind the machine's.
    ///
    /// # Panics
    ///
    /// When it was not [started so](Self::start_with_settable_clock).
    pub fn set_clock_back(&self, by: Duration) {
        self.settable_clock().set_back(by);
    }

    fn settable_clock(&self) -> &Clock {
        let clock = self.clock.as_ref();
        clock.expect("a server that was started with a settable clock")
    }

    /// Ends it at once, as a crash would; harmless when it has ended.
    ///
    /// # Panics
    ///
    /// When the operating system does not let us.
    pub fn kill(&self) {
        self.process().kill().expect("the server is our child");
    }

    /// Starts it anew, on the same port and in the same directory, killing it if it is running. It
    /// is empty then, unless it was told to persist.
    ///
    /// # Panics
    ///
    /// When it does not start again.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill().expect("the server is our child");
        *process = start_process(
            &self.arguments,
            self.directory(),
            self.clock.as_ref(),
            self.port,
        )
        .unwrap_or_else(|error| {
            panic!(
                "{PROGRAM} does not start again: {error}\n{}",
                log(self.directory())
            )
        });
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn usual_arguments(port: u16) -> Vec<String> {
    let port = port.to_string();
    [
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--daemonize",
        "no",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn start_process(
    arguments: &[String],
    directory: &Path,
    clock: Option<&Clock>,
    port: u16,
) -> io::Result<Process> {
    let mut process = Process::start(PROGRAM, arguments, directory, clock)?;
    // Its log tells that the port is its own, and not that of a server which was there first.
    process
        .wait_until(|| log(directory).contains("Ready to accept connections") && answers(port))?;
    Ok(process)
}

/// Whether the server answers, be it only that it wants to know who asks.
fn answers(port: u16) -> bool {
    RespClient::connect(port)
        .and_then(|mut client| client.command(&["PING"]))
        .is_ok()
}
