//! A server's process: started, frozen, killed, and gone when it is dropped.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::time::Instant;

use super::clock::Clock;
use super::ground;

/// How long a server may take to get ready.
const READY_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts `program` with `arguments` in `directory`, its output going to the file `log` there.
    ///
    /// It dies with this process, also when that is killed, where `setpriv` is there to ask for it.
    pub(super) fn start(
        program: &str,
        arguments: &[String],
        directory: &Path,
        clock: Option<&Clock>,
    ) -> io::Result<Self> {
        let log = File::create(directory.join("log"))?;
        let mut command = if is_installed("setpriv") {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", program]);
            command
        } else {
            Command::new(program)
        };
        command
            .args(arguments)
            .envs(clock.into_iter().flat_map(Clock::environment))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log);
        Ok(Self {
            child: ground::spawn(command)?,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `is_ready`, looking every few milliseconds; an error when the process ends
    /// instead.
    pub(super) fn wait_until(&mut self, mut is_ready: impl FnMut() -> bool) -> io::Result<()> {
        let end = Instant::now() + READY_LIMIT;
        while !is_ready() {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("it ended at once: {status}")));
            }
            if end < Instant::now() {
                return Err(io::Error::other(format!(
                    "not ready within {READY_LIMIT:?}"
                )));
            }
            park_timeout(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Stops the process where it stands; returns when it does.
    pub(super) fn freeze(&mut self) {
        self.signal(Signal::STOP);
        // Returns when the process has stopped or ended, and takes nothing from who waits for its
        // end.
        let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), until).expect("the server is our child");
    }

    /// Lets a stopped process go on.
    pub(super) fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Ends the process at once, also a stopped one; harmless when it has ended.
    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    fn signal(&mut self, signal: Signal) {
        // The process id of one that has ended may be another's by now.
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("the server is not running any more: {status}");
        }
        kill_process(self.pid(), signal).expect("the server is our child");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("server {} was not stopped: {error}", self.id());
        }
    }
}

/// Where users of Debian do not look, but its servers are.
const SERVER_DIRECTORIES: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// Whether `program` is installed.
pub(super) fn is_installed(program: &str) -> bool {
    find(program).is_some()
}

/// Where `program` is: on the path, or where servers are.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SERVER_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// What the server in `directory` has printed since its last start.
pub(super) fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("log")).unwrap_or_default()
}

pub(super) fn owned<A: AsRef<str>>(arguments: &[A]) -> Vec<String> {
    let arguments = arguments.iter();
    arguments
        .map(|argument| argument.as_ref().to_owned())
        .collect()
}
