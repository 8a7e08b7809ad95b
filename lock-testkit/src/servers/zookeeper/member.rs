//! A server of an ensemble.

use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Deref;
use std::process::{Command, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use tokio::time::Instant;

use super::super::process::{Process, log};
use super::super::server::{ServerProcess, Site, WallClock};
use super::settings::Settings;
use super::word;

/// Maximum time for a server to start serving.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A server of a [`ZooKeeperServer`](super::ZooKeeperServer), which has an example.
#[derive(Debug)]
pub struct ZooKeeperMember {
    process: ServerProcess,
    tls_port: Option<u16>,
}

impl ZooKeeperMember {
    /// Starts the process without waiting until it serves, which requires other members.
    pub(super) fn start(settings: &Settings) -> Self {
        let (process, ()) = ServerProcess::start("zookeeper", WallClock::Real, |site| {
            settings.write(site.directory(), site.port);
            let arguments = settings.arguments(site.directory());
            let start =
                move |site: &Site| Process::start("java", &arguments, site.directory(), None);
            (Box::new(start), ())
        });
        Self {
            process,
            tls_port: settings.tls_port,
        }
    }

    /// Returns the address: `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    pub(super) fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// Returns the answer to a four-letter word, such as `mntr`; empty while the server does not
    /// serve.
    pub fn word(&self, word: &str) -> String {
        word::ask(self.port(), word).unwrap_or_default()
    }

    /// Returns a figure of `mntr`, such as `zk_packets_received`.
    ///
    /// Returns `None` while the server does not serve, and for an unknown figure.
    pub fn figure(&self, name: &str) -> Option<u64> {
        let answer = self.word("mntr");
        let mut lines = answer.lines().filter_map(|line| line.split_once('\t'));
        let (_, value) = lines.find(|(of, _)| *of == name)?;
        value.trim().parse::<f64>().ok().map(|value| value as u64)
    }

    /// Returns true if the server serves requests.
    pub fn serves(&self) -> bool {
        self.word("srvr").contains("Mode: ")
    }

    /// Returns true if the server leads the ensemble, or is the only server.
    pub fn leads(&self) -> bool {
        let answer = self.word("srvr");
        ["Mode: leader", "Mode: standalone"]
            .iter()
            .any(|mode| answer.contains(mode))
    }

    /// Adds lines to `zoo.cfg`, such as `maxSessionTimeout=4000`.
    ///
    /// They override earlier lines from the next start on.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn configure(&self, lines: &[&str]) {
        let settings = self.directory().join("zoo.cfg");
        let opened = OpenOptions::new().append(true).open(settings);
        let mut settings = opened.expect("it was started with this file");
        for line in lines {
            writeln!(settings, "{line}").expect("a file in the server's directory");
        }
    }

    /// Starts the server again with its data and ports, and waits until it serves.
    ///
    /// Kills the server first if it is running.
    ///
    /// # Panics
    ///
    /// If the server does not serve within a minute.
    pub fn restart(&self) {
        self.relaunch();
        assert!(
            self.gets_ready(),
            "a port of ZooKeeper was taken by somebody else meanwhile"
        );
    }

    /// Starts the server again like [`restart`](Self::restart), without waiting until it serves.
    ///
    /// While most servers of an ensemble are down, no server serves.
    ///
    /// # Panics
    ///
    /// If the operating system refuses.
    pub fn relaunch(&self) {
        self.process.restart();
    }

    /// Waits until the server serves; returns false if another process has its port.
    pub(super) fn gets_ready(&self) -> bool {
        let end = Instant::now() + READY_LIMIT;
        while !self.serves() || !self.shakes_hands() {
            let log = log(self.directory());
            if log.contains("Address already in use") {
                return false;
            }
            assert!(
                Instant::now() < end,
                "ZooKeeper does not serve within {READY_LIMIT:?}\n{log}"
            );
            park_timeout(Duration::from_millis(5));
        }
        true
    }
}

impl ZooKeeperMember {
    /// Returns true if the TLS port completes a handshake, or the server has no TLS port.
    ///
    /// The first handshake of a Java process that has just started takes far longer than later
    /// handshakes.
    fn shakes_hands(&self) -> bool {
        let Some(port) = self.tls_port else {
            return true;
        };
        let greeting = Command::new("openssl")
            .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
            .stdin(Stdio::null())
            .output();
        greeting
            .is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("BEGIN CERTIFICATE"))
    }
}

impl Deref for ZooKeeperMember {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.process
    }
}
