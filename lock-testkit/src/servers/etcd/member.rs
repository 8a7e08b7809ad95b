//! A member of an etcd cluster.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::http;
use crate::servers::port::free_port;
use crate::servers::process::{Process, log};

pub(super) const PROGRAM: &str = "etcd";

/// A member of an etcd cluster; [`EtcdCluster`](super::EtcdCluster) has an example.
///
/// It is a process with a data directory and ports of its own, which stay the same after a restart.
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
    /// Without TLS, even if the client port has TLS.
    pub(super) plain: u16,
    /// For metrics and health, without TLS or authentication.
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
    /// Creates a member that is not started yet.
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
    /// Start members one after the other: a member that starts asks every other member. It waits a
    /// second for each member that listens but does not serve yet.
    pub(super) fn boot(&self) -> io::Result<()> {
        let mut process = Process::start(PROGRAM, &self.arguments, &self.directory, None)?;
        // The client port opens last. With TLS, only the metrics port can be asked.
        process.wait_until(|| http::get(self.ports.metrics, "/metrics").is_some())?;
        *self.process() = Some(process);
        Ok(())
    }

    /// Waits until the member has a leader and answers.
    pub(super) fn wait_until_ready(&self) -> io::Result<()> {
        let mut process = self.process();
        let process = process.as_mut().expect("it was booted");
        // Ask for the health only once there is a leader, or the request would delay the next
        // reads.
        process.wait_until(|| self.tells("etcd_server_has_leader 1") && self.is_healthy())
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.ports.client
    }

    /// Returns the address for clients: `127.0.0.1:port`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.ports.client)
    }

    /// Returns the address for clients without TLS: `127.0.0.1:port`.
    pub fn plain_endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.ports.plain)
    }

    /// Returns the process id, which changes with a [`restart`](Self::restart).
    ///
    /// # Panics
    ///
    /// If the member is not running.
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("it is running").id()
    }

    /// Returns the directory of the member, with the file `log` and its data.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns true if the member reports to be the leader.
    pub fn is_leader(&self) -> bool {
        self.tells("etcd_server_is_leader 1")
    }

    /// Returns the sum of the metrics whose names begin with `name`; zero without such metrics.
    ///
    /// A name is for example `grpc_server_handled_total{grpc_code="OK",grpc_method="Txn"`.
    ///
    /// # Panics
    ///
    /// If the member does not answer.
    pub fn figure(&self, name: &str) -> f64 {
        let metrics = http::get(self.ports.metrics, "/metrics").expect("it is running");
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        let figures = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        figures.sum()
    }

    /// Stops the process with `SIGSTOP`; returns once it has stopped.
    ///
    /// Connections stay open, and no request is answered.
    ///
    /// # Panics
    ///
    /// If the member is not running.
    pub fn freeze(&self) {
        self.process().as_mut().expect("it is running").freeze();
    }

    /// Continues the process after [`freeze`](Self::freeze); has no effect on a process that runs.
    ///
    /// # Panics
    ///
    /// If the member is not running.
    pub fn thaw(&self) {
        self.process().as_mut().expect("it is running").thaw();
    }

    /// Kills the process, as a crash does; has no effect on a member that has ended.
    ///
    /// # Panics
    ///
    /// If the operating system refuses.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            process.kill().expect("the member is our child");
        }
    }

    /// Starts the member again with its data; kills it first if it is running.
    ///
    /// Returns once the member runs; it may not have found a leader yet.
    ///
    /// # Panics
    ///
    /// If the member does not start again.
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
        // The members notice the loss of their leader after 500 ms.
        ("--heartbeat-interval", "50"),
        ("--election-timeout", "500"),
    ]
    .into_iter()
    .flat_map(|(option, value)| [option.to_owned(), value.to_owned()])
    .collect()
}
