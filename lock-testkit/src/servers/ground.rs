//! The thread that starts servers and the directory of their files, which end with the process.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::stalls;

const MEMORY: &str = "/dev/shm";

type Job = (Command, Sender<io::Result<Child>>);

/// Starts `command` from a thread that lives as long as the process.
///
/// Linux sends a child its death signal when the *thread* that started it ends. The threads of a
/// test harness end with each test, but a shared server has to outlive the test.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();

    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, inbox) = channel::<Job>();
        let spawning = move || {
            for (mut command, reply) in inbox {
                // A test that has panicked does not wait for the reply.
                let _unheard = reply.send(command.spawn());
            }
        };
        std::thread::Builder::new()
            .name("lock-testkit-spawner".into())
            .spawn(spawning)
            .expect("a thread that starts servers");
        Mutex::new(jobs)
    });
    let (reply, outcome) = channel();
    let jobs = spawner.lock().unwrap_or_else(PoisonError::into_inner);
    jobs.send((command, reply)).expect("the spawner lives on");
    drop(jobs);
    outcome.recv().expect("the spawner answers")
}

/// Creates a directory for one server, which is removed when the value is dropped.
pub(super) fn directory(server: &str) -> TempDir {
    tempfile::Builder::new()
        .prefix(server)
        .tempdir_in(base())
        .expect("a directory for the server")
}

/// Like [`directory`], but in memory, if the system has the directory `/dev/shm`.
///
/// Use it for servers that wait for the disk at each commit. Tests do not check that commits
/// outlast a power failure.
pub(super) fn directory_in_memory(server: &str) -> TempDir {
    static BASE: OnceLock<Option<PathBuf>> = OnceLock::new();

    let memory = Path::new(MEMORY);
    let base = BASE.get_or_init(|| memory.is_dir().then(|| new_base(memory)));
    match base {
        Some(base) => tempfile::Builder::new()
            .prefix(server)
            .tempdir_in(base)
            .expect("a directory for the server"),
        None => directory(server),
    }
}

/// Returns a directory that processes of this user share; it is private to the user, and stays.
pub(super) fn shared() -> &'static Path {
    static SHARED: OnceLock<PathBuf> = OnceLock::new();

    SHARED.get_or_init(|| {
        let user = geteuid().as_raw();
        let shared = std::env::temp_dir().join(format!("lock-testkit-shared-{user}"));
        match DirBuilder::new().mode(0o700).create(&shared) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {}
            _ if is_ours(&shared, user) => return shared,
            _ => {}
        }
        directory("shared").keep()
    })
}

fn is_ours(directory: &Path, user: u32) -> bool {
    // Check the entry itself, not the target of a link.
    fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

/// Returns the directory of all servers of this process.
fn base() -> &'static Path {
    static BASE: OnceLock<PathBuf> = OnceLock::new();

    BASE.get_or_init(|| new_base(&std::env::temp_dir()))
}

fn new_base(parent: &Path) -> PathBuf {
    let base = tempfile::Builder::new()
        .prefix("lock-testkit-")
        .tempdir_in(parent)
        .expect("a directory for servers")
        .keep();
    remove_with_process(&base);
    stalls::watch_disk(parent);
    base
}

/// Starts a shell that removes `base` once this process has ended, even if it was killed.
///
/// The end of this process closes the standard input of the shell.
fn remove_with_process(base: &Path) {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            r#"trap '' HUP INT TERM; cat >/dev/null; rm -rf "$1""#,
            "sh",
        ])
        .arg(base)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match spawn(command) {
        // Forget the child, so that the pipe stays open until this process ends.
        Ok(child) => std::mem::forget(child),
        Err(error) => eprintln!("{} will be left behind: {error}", base.display()),
    }
}
