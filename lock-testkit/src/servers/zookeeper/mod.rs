//! ZooKeeper as child processes: one server, or an ensemble.

mod member;
mod settings;
mod word;

use std::process::Command;
use std::sync::OnceLock;
use std::thread::park_timeout;
use std::time::Duration;

use tokio::time::Instant;

pub use member::ZooKeeperMember;

use self::settings::{Purpose, Secure, Settings};
use super::authority::Authority;
use super::port::{ATTEMPTS, free_port};

/// Maximum time for an ensemble to elect a leader.
const LEADER_LIMIT: Duration = Duration::from_secs(60);

/// A private ZooKeeper, empty at first: one server, or an ensemble of three servers.
///
/// A tick is 500 ms, so sessions last from 1 to 60 seconds. The server does not wait for the disk,
/// since data outlasts a crash of the process without that; the line `forceSync=yes` makes it wait.
/// Empty containers are removed within seconds.
///
/// One server is ready in about 0.4 s and takes 60 MB; three servers are ready in about 1.1 s.
///
/// ```no_run
/// use lock_testkit::servers::ZooKeeperServer;
///
/// let ensemble = ZooKeeperServer::start_three();
/// println!("{}", ensemble.address());
/// let leader = ensemble.leader();
/// ensemble.member(leader).kill(); // as a crash would
/// ensemble.member(leader).restart(); // with its data, on the same ports
/// ```
#[derive(Debug)]
pub struct ZooKeeperServer {
    members: Vec<ZooKeeperMember>,
}

impl ZooKeeperServer {
    /// Returns true if ZooKeeper and Java are installed.
    pub fn is_available() -> bool {
        settings::missing().is_none()
    }

    /// Starts one server.
    ///
    /// # Panics
    ///
    /// If ZooKeeper or Java is not installed, or the server does not start.
    pub fn start() -> Self {
        Self::start_members(1, None, Purpose::Tests, &[])
    }

    /// Starts one server with additional lines in its `zoo.cfg`, such as `tickTime=2000`.
    ///
    /// They override the usual lines. Lines that begin with `-D` are properties for Java, such as
    /// `-Djute.maxbuffer=16384`.
    ///
    /// # Panics
    ///
    /// If ZooKeeper or Java is not installed, or the server does not start with the lines.
    pub fn start_with(lines: &[&str]) -> Self {
        Self::start_members(1, None, Purpose::Tests, lines)
    }

    /// Starts one server for measurements, with additional lines in its `zoo.cfg`.
    ///
    /// It looks for empty containers once a minute, as it does by default.
    ///
    /// # Panics
    ///
    /// If ZooKeeper or Java is not installed, or the server does not start with the lines.
    pub fn start_to_measure(lines: &[&str]) -> Self {
        Self::start_members(1, None, Purpose::Measurements, lines)
    }

    /// Starts an ensemble of three servers.
    ///
    /// # Panics
    ///
    /// If ZooKeeper or Java is not installed, or the servers do not start.
    pub fn start_three() -> Self {
        Self::start_three_with(&[])
    }

    /// Starts an ensemble of three servers with additional lines in each `zoo.cfg`, such as
    /// `syncLimit=20`.
    ///
    /// # Panics
    ///
    /// If ZooKeeper or Java is not installed, or the servers do not start with the lines.
    pub fn start_three_with(lines: &[&str]) -> Self {
        Self::start_members(3, None, Purpose::Tests, lines)
    }

    /// Starts one server that speaks TLS on an additional port.
    ///
    /// Its certificate is for `localhost` and `127.0.0.1`. Additional lines override the usual
    /// lines. `ssl.clientAuth=need` requires client certificates of `authority`; by default clients
    /// need no certificate.
    ///
    /// # Panics
    ///
    /// If ZooKeeper, Java or `openssl` is not installed, or the server does not start with the
    /// lines.
    pub fn start_with_tls(authority: &Authority, lines: &[&str]) -> Self {
        let identity = authority.issue("DNS:localhost,IP:127.0.0.1", 1);
        let secure = Secure::new(authority, &identity);
        Self::start_members(1, Some(&secure), Purpose::Tests, lines)
    }

    /// Returns the shared server of this process.
    ///
    /// The first call starts it, and it runs until the process ends. Tests must use names of their
    /// own, never freeze it, and never read all of its nodes.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ZooKeeperServer> = OnceLock::new();

        SHARED.get_or_init(Self::start)
    }

    /// Returns the shared ensemble of three servers of this process, like [`shared`](Self::shared).
    pub fn shared_three() -> &'static Self {
        static SHARED: OnceLock<ZooKeeperServer> = OnceLock::new();

        SHARED.get_or_init(Self::start_three)
    }

    fn start_members(
        count: usize,
        secure: Option<&Secure>,
        purpose: Purpose,
        lines: &[&str],
    ) -> Self {
        if let Some(missing) = settings::missing() {
            panic!(
                "{missing} is missing: `apt-get install libzookeeper-java default-jre-headless` brings it, and scripts/test installs whatever the tests need"
            );
        }
        for _ in 0..ATTEMPTS {
            let settings = Settings::draw(count, free_port, secure, purpose, lines);
            if let Some(members) = start_all(&settings) {
                return Self { members };
            }
        }
        panic!("ZooKeeper does not start: {ATTEMPTS} times a port was taken by others meanwhile");
    }

    /// Returns the addresses of all servers, separated by commas: `127.0.0.1:port`.
    pub fn address(&self) -> String {
        let addresses = self.members.iter().map(ZooKeeperMember::address);
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Returns ZooKeeper's command line for this server, to which the caller adds arguments.
    ///
    /// The arguments are for example `deleteall /locks`.
    pub fn control_command(&self) -> Command {
        let mut command = Command::new("java");
        command.args(settings::control_arguments(&self.address()));
        command
    }

    /// Returns the address of the TLS port, `127.0.0.1:port`; `None` without TLS.
    pub fn tls_address(&self) -> Option<String> {
        let port = self.members.first()?.tls_port()?;
        Some(format!("127.0.0.1:{port}"))
    }

    /// Returns a server by its number, from 0.
    ///
    /// # Panics
    ///
    /// If there are fewer servers.
    pub fn member(&self, number: usize) -> &ZooKeeperMember {
        &self.members[number]
    }

    /// Returns all servers.
    pub fn members(&self) -> &[ZooKeeperMember] {
        &self.members
    }

    /// Returns the number of the server that leads, from 0; waits while there is none.
    ///
    /// A single server leads.
    ///
    /// # Panics
    ///
    /// If no server leads within a minute.
    pub fn leader(&self) -> usize {
        let end = Instant::now() + LEADER_LIMIT;
        loop {
            if let Some(leader) = self.members.iter().position(ZooKeeperMember::leads) {
                return leader;
            }
            assert!(
                Instant::now() < end,
                "nobody leads the ensemble within {LEADER_LIMIT:?}"
            );
            park_timeout(Duration::from_millis(20));
        }
    }
}

/// Starts all servers; returns `None` if a port is taken.
fn start_all(settings: &[Settings]) -> Option<Vec<ZooKeeperMember>> {
    // No server serves until most of the ensemble runs, so start all before waiting for any.
    let members: Vec<_> = settings.iter().map(ZooKeeperMember::start).collect();
    let all_serve = members.iter().all(ZooKeeperMember::gets_ready);
    all_serve.then_some(members)
}
