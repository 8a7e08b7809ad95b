//! `redis-server` as a child process.

use std::io;
use std::ops::Deref;
use std::sync::OnceLock;

use super::authority::Authority;
use super::port::free_port;
use super::process::{Process, is_installed, log, owned};
use super::resp::RespClient;
use super::server::{ServerProcess, Site, WallClock};

const PROGRAM: &str = "redis-server";

/// A private Redis server without persistence or a configuration file, empty at first.
///
/// It is ready in about 15 ms, and takes 12 MB.
///
/// ```no_run
/// use lock_testkit::servers::RedisServer;
///
/// let server = RedisServer::start();
/// println!("{} is process {}", server.url(), server.pid());
/// server.freeze(); // no answers, and no closed connections
/// server.thaw();
/// server.kill(); // as a crash would
/// server.restart(); // empty, on the same port
/// ```
#[derive(Debug)]
pub struct RedisServer {
    process: ServerProcess,
    tls_port: Option<u16>,
}

impl RedisServer {
    /// Returns true if `redis-server` is installed.
    pub fn is_available() -> bool {
        is_installed(PROGRAM)
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If `redis-server` is not installed or does not start.
    pub fn start() -> Self {
        Self::start_with::<&str>(&[])
    }

    /// Starts a server with additional command-line arguments, which override the usual arguments.
    ///
    /// # Panics
    ///
    /// If `redis-server` is not installed or does not start with the arguments.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_testkit::servers::RedisServer;
    ///
    /// let with_password = RedisServer::start_with(&["--requirepass", "secret"]);
    /// let user = ["--user", "locker", "on", ">secret", "~*", "+@all"];
    /// let with_user = RedisServer::start_with(&user);
    /// let kept = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    /// ```
    pub fn start_with<A: AsRef<str>>(arguments: &[A]) -> Self {
        Self::try_ports(WallClock::Real, || (None, owned(arguments)))
    }

    /// Starts a server with a wall clock that a test can [set](ServerProcess::set_clock_ahead).
    ///
    /// Additional arguments override the usual arguments. Reading the clock takes the server a
    /// little longer.
    ///
    /// # Panics
    ///
    /// If `redis-server` or `cc` is not installed, or the server does not start with the arguments.
    pub fn start_with_settable_clock<A: AsRef<str>>(arguments: &[A]) -> Self {
        Self::try_ports(WallClock::Settable, || (None, owned(arguments)))
    }

    /// Starts a server that speaks TLS on an additional port.
    ///
    /// Its plain port stays, which [`client`](Self::client) uses. Its certificate is for
    /// `localhost` and `127.0.0.1`; clients need no certificate.
    ///
    /// Additional arguments override the usual arguments. `--tls-auth-clients yes` requires client
    /// certificates of `authority`. `--tls-cert-file` and `--tls-key-file` set another server
    /// certificate.
    ///
    /// # Panics
    ///
    /// If `redis-server` or `openssl` is not installed, or the server does not start with the
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
        Self::try_ports(WallClock::Real, more)
    }

    /// Starts the server on free ports; `more` returns the TLS port and the additional arguments.
    fn try_ports(clock: WallClock, more: impl Fn() -> (Option<u16>, Vec<String>)) -> Self {
        assert!(
            Self::is_available(),
            "{PROGRAM} is not on the path: `apt-get install redis-server` brings it, and scripts/test installs whatever the tests need"
        );
        let (process, tls_port) = ServerProcess::start(PROGRAM, clock, |site| {
            let (tls_port, more) = more();
            let arguments = [usual_arguments(site.port), more].concat();
            let start = move |site: &Site| start_process(&arguments, site);
            (Box::new(start), tls_port)
        });
        Self { process, tls_port }
    }

    /// Returns the shared server of this process.
    ///
    /// The first call starts it, and it runs until the process ends. Tests must use names of their
    /// own, never freeze it, and never read all of its keys.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();

        SHARED.get_or_init(Self::start)
    }

    /// Returns the URL of the plain port: `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Returns the URL of the TLS port, `rediss://127.0.0.1:port`; `None` without TLS.
    pub fn tls_url(&self) -> Option<String> {
        self.tls_port
            .map(|port| format!("rediss://127.0.0.1:{port}"))
    }

    /// Opens a connection for inspecting the server.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    pub fn client(&self) -> RespClient {
        RespClient::connect(self.port()).expect("the server is running")
    }
}

impl Deref for RedisServer {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.process
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

fn start_process(arguments: &[String], site: &Site) -> io::Result<Process> {
    let directory = site.directory();
    let mut process = Process::start(PROGRAM, arguments, directory, site.clock.as_ref())?;
    // The log shows that the port belongs to this server, not to a server that was there first.
    process.wait_until(|| {
        log(directory).contains("Ready to accept connections") && answers(site.port)
    })?;
    Ok(process)
}

/// Returns true if the server answers, even if only to require a password.
fn answers(port: u16) -> bool {
    RespClient::connect(port)
        .and_then(|mut client| client.command(&["PING"]))
        .is_ok()
}
