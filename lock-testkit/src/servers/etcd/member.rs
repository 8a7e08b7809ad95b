//! One member of an etcd cluster.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::http;
use crate::servers::port::free_port;
use crate::servers::process::{Process, log};

pub(super) const PROGRAM: &str = "etcd";

/// One member: a process with a data directory and ports of its own, which stay the same when it is
/// restarted.
#[derive(Debug)]
pub struct EtcdMember {
    process: Mutex<Option<Process>>,
    directory: PathBuf,
    ports: Ports,
    arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) client: u16,
    pub(super) peer: u16,
    /// Without TLS, also where the client port has it.
    pub(super) plain: u16,
    /// For its state, without TLS or authentication.
    metrics: u16,
}

impl Ports {
    pub(super) fn free() -> Self {
        Self {
            client: free_port(),
            peer: free_port(),
            plain: free_port(),
            metrics: free_port(),
        }
    }
}

impl EtcdMember {
    /// A member that is started later.
    pub(super) fn new(directory: PathBuf, ports: Ports, arguments: Vec<String>) -> Self {
        Self {
            process: Mutex::new(None),
            directory,
            ports,
            arguments,
        }
    }

    /// Starts the process, and waits until it talks to other members.
    ///
    /// Members are started one after the other: one that boots asks every other, and waits a second for
    /// each that has opened its socket and does not serve it yet.
    pub(super) fn boot(&self) -> io::Result<()> {
        let mut process = Process::start(PROGRAM, &self.arguments, &self.directory, None)?;
        // The client port is the last one it opens; with TLS only this one can be asked.
        process.wait_until(|| http::get(self.ports.metrics, "/metrics").is_some())?;
        *self.process() = Some(process);
        Ok(())
    }

    /// Waits until it has a leader and answers.
    pub(super) fn wait_until_ready(&self) -> io::Result<()> {
        let mut process = self.process();
        let process = process.as_mut().expect("it was booted");
        // Not asked for its health before there is a leader, which would hold its next reads up.
        process.wait_until(|| self.tells("etcd_server_has_leader 1") && self.is_healthy())
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.ports.client
    }

    /// Where it is: `127.0.0.1:port`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.ports.client)
    }

    /// Where it speaks to clients without TLS, also where the other port has it: `127.0.0.1:port`.
    pub fn plain_endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.ports.plain)
    }

    /// Its process id; another one after [`restart`](Self::restart).
    ///
    /// # Panics
    ///
    /// When it is not running.
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("it is running").id()
    }

    /// Its directory, with the file `log` and its data.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it says of itself that it leads.
    pub fn is_leader(&self) -> bool {
        self.tells("etcd_server_is_leader 1")
    }

    /// The sum of the figures that it tells under names that begin with `name`, for example
    /// `grpc_server_handled_total{grpc_code="OK",grpc_method="Txn"`; zero when it tells none.
    ///
    /// # Panics
    ///
    /// When it does not answer.
    pub fn figure(&self, name: &str) -> f64 {
        let metrics = http::get(self.ports.metrics, "/metrics").expect("it is running");
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        let figures = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        figures.sum()
    }

    /// Stops it where it stands: connections stay open, and nothing is answered. Returns when it has
    /// stopped.
    ///
    /// # Panics
    ///
    /// When it is not running.
    pub fn freeze(&self) {
        self.process().as_mut().expect("it is running").freeze();
    }

    /// Lets it go on after [`freeze`](Self::freeze); harmless when it is not frozen.
    ///
    /// # Panics
    ///
    /// When it is not running.
    pub fn thaw(&self) {
        self.process().as_mut().expect("it is running").thaw();
    }

    /// Ends it at once, as a crash would; harmless when it has ended.
    ///
    /// # Panics
    ///
    /// When the operating system does not let us.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            process.kill().expect("the member is our child");
        }
    }

    /// Starts it anew with its data, killing it if it is running. Returns when it runs; it may not have
    /// found a leader yet.
    ///
    /// # Panics
    ///
    /// When it does not start again.
    pub fn restart(&self) {
        self.kill();
        self.boot().unwrap_or_else(|error| {
            panic!(
                "{PROGRAM} does not start again: {error}\n{}",
                log(&self.directory)
            )
        });
    }

    fn tells(&self, line: &str) -> bool {
        let metrics = http::get(self.ports.metrics, "/metrics");
        metrics.is_some_and(|metrics| metrics.lines().any(|told| told == line))
    }

    fn is_healthy(&self) -> bool {
        let health = http::get(self.ports.metrics, "/health");
        health.is_some_and(|health| health.contains(r#""health":"true""#))
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every member is told.
pub(super) fn usual_arguments(name: &str, ports: Ports, scheme: &str) -> Vec<String> {
    let url = |scheme: &str, port: u16| format!("{scheme}://127.0.0.1:{port}");
    let client = url(scheme, ports.client);
    let clients = format!("{client},{}", url("http", ports.plain));
    let peer = url("http", ports.peer);
    let metrics = url("http", ports.metrics);
    [
        ("--name", name),
        ("--data-dir", "data"),
        ("--listen-client-urls", &clients),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", &peer),
        ("--initial-advertise-peer-urls", &peer),
        ("--listen-metrics-urls", &metrics),
        // A leader that is gone is missed after 500 ms.
        ("--heartbeat-interval", "50"),
        ("--election-timeout", "500"),
    ]
    .into_iter()
    .flat_map(|(option, value)| [option.to_owned(), value.to_owned()])
    .collect()
}
