//! A cluster of one or more members.

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::member::{EtcdMember, PROGRAM, Ports, usual_arguments};
use crate::servers::authority::Authority;
use crate::servers::ground;
use crate::servers::port::ATTEMPTS;
use crate::servers::process::{is_installed, log, owned};

const CONTROL: &str = "etcdctl";

/// The password of `root` once [authentication](EtcdCluster::enable_authentication) is on.
const ROOT_PASSWORD: &str = "root-password";

/// A private etcd cluster, empty at first, with leases from 1 second on.
///
/// A cluster of one member is ready in about 550 ms, of three members in 300 ms. Each member takes
/// 25 MB. The data is in memory, if the system has the directory `/dev/shm`.
///
/// ```no_run
/// use lock_testkit::servers::EtcdCluster;
///
/// let cluster = EtcdCluster::start(3);
/// let leader = cluster.leader().expect("it is ready, so somebody leads");
/// leader.freeze(); // the other members elect a leader within a second
/// leader.thaw();
/// leader.kill(); // as a crash would
/// leader.restart(); // with its data
/// println!("{}", cluster.control(&["get", "--prefix", "", "--keys-only"]));
/// ```
#[derive(Debug)]
pub struct EtcdCluster {
    // Declared first, so dropped first: the processes end before their directory is removed.
    members: Vec<EtcdMember>,
    directory: TempDir,
    has_tls: bool,
    has_authentication: AtomicBool,
}

impl EtcdCluster {
    /// Returns true if `etcd` is installed.
    pub fn is_available() -> bool {
        is_installed(PROGRAM)
    }

    /// Starts a cluster of `members` members.
    ///
    /// # Panics
    ///
    /// If `etcd` is not installed or does not start.
    pub fn start(members: usize) -> Self {
        Self::start_with::<&str>(members, &[])
    }

    /// Starts a cluster with additional command-line arguments, which override the usual arguments.
    ///
    /// # Panics
    ///
    /// If `etcd` is not installed or does not start with the arguments.
    pub fn start_with<A: AsRef<str>>(members: usize, arguments: &[A]) -> Self {
        Self::try_ports(members, false, &owned(arguments))
    }

    /// Starts a cluster of one member that speaks TLS to its clients.
    ///
    /// It has a plain port as well, which [`control`](Self::control) uses. Its certificate is for
    /// `localhost` and `127.0.0.1`; clients need no certificate.
    ///
    /// With `--client-cert-auth` and `--trusted-ca-file` the member requires certificates of
    /// clients. `--cert-file` and `--key-file` set another server certificate.
    ///
    /// # Panics
    ///
    /// If `etcd` or `openssl` is not installed, or `etcd` does not start with the arguments.
    pub fn start_with_tls<A: AsRef<str>>(authority: &Authority, arguments: &[A]) -> Self {
        let names = "DNS:localhost,IP:127.0.0.1";
        let own = authority.issue(names, 1);
        let tls = [
            "--cert-file".to_owned(),
            own.cert.display().to_string(),
            "--key-file".to_owned(),
            own.key.display().to_string(),
        ];
        let arguments = [tls.to_vec(), owned(arguments)].concat();
        Self::try_ports(1, true, &arguments)
    }

    /// Starts the cluster on ports that no other process takes.
    fn try_ports(size: usize, has_tls: bool, more: &[String]) -> Self {
        assert!(
            Self::is_available(),
            "{PROGRAM} is not on the path: `apt-get install etcd-server` brings it, and scripts/test installs whatever the tests need"
        );
        let scheme = if has_tls { "https" } else { "http" };
        for _ in 0..ATTEMPTS {
            let directory = ground::directory_in_memory(PROGRAM);
            let members = new_members(size, &directory, scheme, more);
            let started = members
                .iter()
                .try_for_each(|member| member.boot())
                .and_then(|()| members.iter().try_for_each(EtcdMember::wait_until_ready));
            let logs: String = members
                .iter()
                .map(|member| log(member.directory()))
                .collect();
            match started {
                Ok(()) => {
                    return Self {
                        members,
                        directory,
                        has_tls,
                        has_authentication: AtomicBool::new(false),
                    };
                }
                Err(_) if logs.contains("address already in use") => {}
                Err(error) => panic!("{PROGRAM} does not start: {error}\n{logs}"),
            }
        }
        panic!("{PROGRAM} does not start: {ATTEMPTS} ports were taken by others meanwhile");
    }

    /// Returns the shared cluster of this process, with one member.
    ///
    /// The first call starts it, and it runs until the process ends. Tests must use names of their
    /// own, never freeze it, and never read all of its keys.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<EtcdCluster> = OnceLock::new();

        SHARED.get_or_init(|| Self::start(1))
    }

    /// Returns all members.
    pub fn members(&self) -> &[EtcdMember] {
        &self.members
    }

    /// Returns the first member.
    pub fn first(&self) -> &EtcdMember {
        &self.members[0]
    }

    /// Returns the member that reports to be the leader, or `None` if no member does.
    ///
    /// Members that are frozen or killed report nothing.
    pub fn leader(&self) -> Option<&EtcdMember> {
        self.members.iter().find(|member| member.is_leader())
    }

    /// Returns the addresses of all members without a scheme: `127.0.0.1:port,127.0.0.1:port`.
    pub fn endpoints(&self) -> String {
        let endpoints: Vec<String> = self.members.iter().map(EtcdMember::endpoint).collect();
        endpoints.join(",")
    }

    /// Returns the URL with all members: `etcd://127.0.0.1:port,…`, or `etcds://` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.has_tls { "etcds" } else { "etcd" };
        format!("{scheme}://{}", self.endpoints())
    }

    /// Turns authentication on: from then on only users that `root` has created have access.
    ///
    /// [`control`](Self::control) continues as `root`.
    ///
    /// # Panics
    ///
    /// If `etcdctl` is not installed or fails.
    pub fn enable_authentication(&self) {
        self.control(&["user", "add", &format!("root:{ROOT_PASSWORD}")]);
        self.control(&["user", "grant-role", "root", "root"]);
        self.control(&["auth", "enable"]);
        self.has_authentication.store(true, Ordering::SeqCst);
    }

    /// Returns the name and password of the user with all rights, once authentication is on.
    pub fn root(&self) -> Option<(&'static str, &'static str)> {
        let is_on = self.has_authentication.load(Ordering::SeqCst);
        is_on.then_some(("root", ROOT_PASSWORD))
    }

    /// Runs `etcdctl` with these arguments, and returns its output.
    ///
    /// # Panics
    ///
    /// If `etcdctl` is not installed or fails.
    pub fn control<A: AsRef<str>>(&self, arguments: &[A]) -> String {
        let mut command = self.control_command();
        let output = command
            .args(arguments.iter().map(AsRef::as_ref))
            .output()
            .unwrap_or_else(|error| panic!("{CONTROL} does not start: {error}"));
        assert!(
            output.status.success(),
            "{command:?} fails: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the command `etcdctl` for this cluster, to which the caller adds arguments.
    ///
    /// # Panics
    ///
    /// If `etcdctl` is not installed.
    pub fn control_command(&self) -> Command {
        assert!(
            is_installed(CONTROL),
            "{CONTROL} is not on the path: `apt-get install etcd-client` brings it, and scripts/test installs whatever the tests need"
        );
        let mut command = Command::new(CONTROL);
        let endpoints: Vec<String> = self
            .members
            .iter()
            .map(EtcdMember::plain_endpoint)
            .collect();
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoints.join(",")])
            .current_dir(self.directory.path());
        if let Some((name, password)) = self.root() {
            command.args(["--user", &format!("{name}:{password}")]);
        }
        command
    }
}

fn new_members(size: usize, directory: &TempDir, scheme: &str, more: &[String]) -> Vec<EtcdMember> {
    let ports: Vec<Ports> = (0..size).map(|_| Ports::free()).collect();
    let peers: Vec<String> = ports
        .iter()
        .enumerate()
        .map(|(number, ports)| format!("member{number}=http://127.0.0.1:{}", ports.peer))
        .collect();
    let cluster = ["--initial-cluster".to_owned(), peers.join(",")];
    ports
        .into_iter()
        .enumerate()
        .map(|(number, ports)| {
            let name = format!("member{number}");
            let own = directory.path().join(&name);
            std::fs::create_dir(&own).expect("the directory is ours");
            let usual = usual_arguments(&name, ports, scheme);
            EtcdMember::new(own, ports, [&usual, &cluster[..], more].concat())
        })
        .collect()
}
