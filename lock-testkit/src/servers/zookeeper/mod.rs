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

/// How long an ensemble may take to agree on a leader.
const LEADER_LIMIT: Duration = Duration::from_secs(60);

/// A ZooKeeper of its own: one server or an ensemble of three, empty, with a tick of 500 ms, so that
/// sessions of 1 to 60 seconds can be had. It does not wait for the disk, which a crash of the process
/// does not need; the line `forceSync=yes` makes it. Containers that are empty go within seconds.
///
/// One server is ready in about 0.4 s and 60 MB large, three are in about 1.1 s.
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
    /// Whether ZooKeeper and a Java to run it are installed.
    pub fn is_available() -> bool {
        settings::missing().is_none()
    }

    /// Starts one server.
    ///
    /// # Panics
    ///
    /// When ZooKeeper or Java is not installed, or does not start.
    pub fn start() -> Self {
        Self::start_members(1, None, Purpose::Tests, &[])
    }

    /// Starts one server with more lines in its `zoo.cfg`, such as `tickTime=2000`, which win over the
    /// usual ones. Those that begin with `-D` are properties for Java, such as `-Djute.maxbuffer=16384`.
    ///
    /// # Panics
    ///
    /// When ZooKeeper or Java is not installed, or does not start with them.
    pub fn start_with(lines: &[&str]) -> Self {
        Self::start_members(1, None, Purpose::Tests, lines)
    }

    /// Starts one server to measure on, with more lines in its `zoo.cfg`: it looks for empty containers once a minute, as
    /// it does by default.
    ///
    /// # Panics
    ///
    /// When ZooKeeper or Java is not installed, or does not start with them.
    pub fn start_to_measure(lines: &[&str]) -> Self {
        Self::start_members(1, None, Purpose::Measurements, lines)
    }

    /// Starts an ensemble of three.
    ///
    /// # Panics
    ///
    /// When ZooKeeper or Java is not installed, or does not start.
    pub fn start_three() -> Self {
        Self::start_members(3, None, Purpose::Tests, &[])
    }

    /// Starts one server that speaks TLS on a port of its own, besides the plain one. Its certificate
    /// is for `localhost` and `127.0.0.1`. More lines win over the usual ones: `ssl.clientAuth=need`
    /// demands certificates of `authority` from clients, which need none otherwise.
    ///
    /// # Panics
    ///
    /// When ZooKeeper, Java or `openssl` is not installed, or the server does not start with the lines.
    pub fn start_with_tls(authority: &Authority, lines: &[&str]) -> Self {
        let identity = authority.issue("DNS:localhost,IP:127.0.0.1", 1);
        let secure = Secure::new(authority, &identity);
        Self::start_members(1, Some(&secure), Purpose::Tests, lines)
    }

    /// The one server of this process, started by the first call and living until the process ends.
    ///
    /// For tests that keep to names of their own, never freeze it and never look at all of it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ZooKeeperServer> = OnceLock::new();

        SHARED.get_or_init(Self::start)
    }

    /// The one ensemble of three of this process, likewise.
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

    /// Where it is, as clients want it: `127.0.0.1:port`, for an ensemble all of them with commas
    /// between.
    pub fn address(&self) -> String {
        let addresses = self.members.iter().map(ZooKeeperMember::address);
        addresses.collect::<Vec<_>>().join(",")
    }

    /// ZooKeeper's own command line for it, such as `deleteall /locks`; its arguments are to be added.
    pub fn control_command(&self) -> Command {
        let mut command = Command::new("java");
        command.args(settings::control_arguments(&self.address()));
        command
    }

    /// Where it speaks TLS; `None` when it does not.
    pub fn tls_address(&self) -> Option<String> {
        let port = self.members.first()?.tls_port()?;
        Some(format!("127.0.0.1:{port}"))
    }

    /// One of its servers.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    pub fn member(&self, number: usize) -> &ZooKeeperMember {
        &self.members[number]
    }

    /// All of its servers.
    pub fn members(&self) -> &[ZooKeeperMember] {
        &self.members
    }

    /// The number of the member that leads; of a single server, that one. It waits while there is none.
    ///
    /// # Panics
    ///
    /// When nobody leads within a minute.
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

/// Starts all members; `None` when a port is taken.
fn start_all(settings: &[Settings]) -> Option<Vec<ZooKeeperMember>> {
    // An ensemble serves nobody until most of it runs, so all are started before any is waited for.
    let members: Vec<_> = settings.iter().map(ZooKeeperMember::start).collect();
    let all_serve = members.iter().all(ZooKeeperMember::gets_ready);
    all_serve.then_some(members)
}
