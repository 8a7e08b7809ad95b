//! The process of a server: started, stopped, killed, and ended when it is dropped.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use tokio::time::Instant;

use super::clock::Clock;
use super::ground;
use crate::stop;

/// Maximum time for a server to get ready.
const READY_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts `program` with `arguments` in `directory`, with its output in the file `log` there.
    ///
    /// If `setpriv` is installed, the process dies with this process, even if this process is
    /// killed.
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

    /// Waits until `is_ready`, checking every few milliseconds; fails if the process ends instead.
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

    pub(super) fn freeze(&mut self) {
        stop::freeze(&mut self.child);
    }

    pub(super) fn thaw(&mut self) {
        stop::thaw(&mut self.child);
    }

    /// Kills the process, even if it is stopped; has no effect on a process that has ended.
    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("server {} was not stopped: {error}", self.id());
        }
    }
}

/// The directories of servers on Debian, which are not on the path of its users.
const SERVER_DIRECTORIES: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

pub(super) fn is_installed(program: &str) -> bool {
    find(program).is_some()
}

/// Returns the file of `program`, from the path or the directories of servers.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SERVER_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Returns the output of the server in `directory` since its last start.
pub(super) fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("log")).unwrap_or_default()
}

pub(super) fn owned<A: AsRef<str>>(arguments: &[A]) -> Vec<String> {
    let arguments = arguments.iter();
    arguments
        .map(|argument| argument.as_ref().to_owned())
        .collect()
}
