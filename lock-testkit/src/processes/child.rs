//! A child process, as its test uses it.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lock_core::LockRequest;

use super::Role;
use super::names::PARTS;
use super::parent::{CONNECTED, SAYS, TWO_HOLDERS};
use super::part::Part;
use crate::{excluded, stop};

/// The test that [`roles!`](crate::roles) creates.
const TEST: &str = "roles::child";

/// Maximum time for a child to send its next message.
const LIMIT: Duration = Duration::from_secs(30);

/// A new process of this test program, which takes a lock and plays a [`Role`].
///
/// The [module](crate::processes) has an example. Dropping the value kills the process, which also
/// ends when this process ends. All methods block the calling thread while they wait.
pub struct Child {
    process: std::process::Child,
    said: Receiver<String>,
}

impl Child {
    /// Starts a child that connects to `store`, takes the lock of `request` and plays `role`.
    ///
    /// The child waits for the lock if necessary, and then sends its token. This function returns
    /// before the child connects. The function that is named in [`roles!`](crate::roles) gets
    /// `store`.
    ///
    /// # Panics
    ///
    /// If the operating system starts no process.
    pub fn start(store: impl Into<String>, request: &LockRequest, role: Role) -> Self {
        Self::start_with(store, request, role, &[])
    }

    /// Starts a child like [`start`](Self::start), with additional environment variables.
    ///
    /// # Panics
    ///
    /// If the operating system starts no process.
    pub fn start_with(
        store: impl Into<String>,
        request: &LockRequest,
        role: Role,
        environment: &[(&str, &str)],
    ) -> Self {
        let part = Part {
            store: store.into(),
            request: request.clone(),
            role,
        };
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        part.give_to(&mut command);
        let mut process = command
            .args([TEST, "--exact", "--nocapture"])
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child process");
        let said = listen(process.stdout.take().expect("piped"));
        Self { process, said }
    }

    /// Returns the next message of the child, after up to 30 seconds.
    ///
    /// # Panics
    ///
    /// If the child sends nothing. The panic message contains its standard error.
    pub fn says(&mut self) -> String {
        loop {
            let words = self.hears();
            if words != CONNECTED {
                return words;
            }
        }
    }

    /// Waits until the child is connected and about to request its lock.
    ///
    /// A child that waits for its lock sends no further message.
    pub(crate) fn connects(&mut self) {
        assert_eq!(self.hears(), CONNECTED);
    }

    fn hears(&mut self) -> String {
        match self.said.recv_timeout(LIMIT) {
            Ok(words) => words,
            Err(problem) => {
                // Kill the child first, since its standard error would not end otherwise.
                let (_, errors) = self.kill();
                panic!(
                    "the child says nothing, if there is a test `{TEST}` at all: {problem}\n{errors}"
                )
            }
        }
    }

    /// Returns the number of the child's process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the token of the child's lock, which is the child's first message.
    ///
    /// # Panics
    ///
    /// If the child sends nothing within 30 seconds, or no token.
    pub fn token(&mut self) -> u64 {
        self.says().parse().expect("a token")
    }

    /// Returns the growth of the child's memory by used names after the warm-up, in kilobytes.
    ///
    /// The child has to [use names](super::Role::UseNames), and its token has to be read before.
    /// The quarter with the largest growth counts as much as the other quarters on average: an
    /// allocator grows once, a leak grows with each name.
    ///
    /// # Panics
    ///
    /// If the child sends nothing for 30 seconds, or no number.
    pub fn growth(&mut self) -> usize {
        let resident = [(); PARTS + 1].map(|()| self.says().parse::<usize>().expect("a number"));
        let steps = resident.windows(2).map(|two| two[1].saturating_sub(two[0]));
        let largest = steps.clone().max().unwrap_or_default();
        (steps.sum::<usize>() - largest) * PARTS / (PARTS - 1)
    }

    /// Tells the child to continue, if its role waits for that.
    ///
    /// # Panics
    ///
    /// If the child has ended.
    pub fn nudge(&mut self) {
        let input = self.process.stdin.as_mut().expect("piped");
        input.write_all(b"go on\n").expect("the child listens");
    }

    /// Kills the child, as a crash does; returns its exit status and its standard error.
    ///
    /// # Panics
    ///
    /// If the end of the child was waited for before.
    pub fn kill(&mut self) -> (ExitStatus, String) {
        self.process.kill().expect("our child");
        self.end()
    }

    /// Waits for the end of the child; returns its exit status and its standard error.
    ///
    /// # Panics
    ///
    /// If the end of the child was waited for before.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut errors = Vec::new();
        let mut pipe = self.process.stderr.take().expect("asked once");
        pipe.read_to_end(&mut errors).expect("a pipe");
        let status = self.process.wait().expect("our child");
        (status, String::from_utf8_lossy(&errors).into_owned())
    }

    /// Stops the child with `SIGSTOP`; returns once it has stopped.
    ///
    /// # Panics
    ///
    /// If the child has ended.
    pub fn freeze(&mut self) {
        stop::freeze(&mut self.process);
    }

    /// Continues a stopped child.
    ///
    /// # Panics
    ///
    /// If the child has ended.
    pub fn thaw(&mut self) {
        stop::thaw(&mut self.process);
    }
}

fn listen(output: ChildStdout) -> Receiver<String> {
    let (saying, said) = channel();
    let test = excluded::here();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines();
        for line in lines.map_while(Result::ok) {
            if let Some((_, words)) = line.split_once(SAYS) {
                // The receiver is gone when the test is over.
                let _unheard = saying.send(words.to_owned());
            } else if line.contains(TWO_HOLDERS) {
                excluded::note(test);
            }
        }
    });
    said
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Child({})", self.process.id())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Some tests wait for the end of the child.
        if self.process.kill().is_ok() {
            let _status = self.process.wait();
        }
    }
}
