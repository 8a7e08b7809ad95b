//! The child as the test sees it.

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

/// The test that [`roles!`](crate::roles) makes.
const TEST: &str = "roles::child";

/// How long a child may take to say what is expected of it.
const LIMIT: Duration = Duration::from_secs(30);

/// This test program once more, as another process that has taken a lock and plays a [`Role`].
///
/// It is killed when it is dropped, and ends by itself when this process is gone. All methods block
/// the calling thread for as long as what they wait for takes.
pub struct Child {
    process: std::process::Child,
    said: Receiver<String>,
}

impl Child {
    /// Starts a child that connects to `store`, takes the lock of `request`, waiting for it if need
    /// be, says its token and plays `role`. Returns before it has done anything of it.
    ///
    /// `store` is what the function gets that was named in [`roles!`](crate::roles).
    ///
    /// # Panics
    ///
    /// When the operating system starts no process.
    pub fn start(store: impl Into<String>, request: &LockRequest, role: Role) -> Self {
        Self::start_with(store, request, role, &[])
    }

    /// Starts a child with more in its environment.
    ///
    /// # Panics
    ///
    /// When the operating system starts no process.
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

    /// What the child says next, waited for up to 30 seconds.
    ///
    /// # Panics
    ///
    /// When it says nothing; its standard error is in the message.
    pub fn says(&mut self) -> String {
        loop {
            let words = self.hears();
            if words != CONNECTED {
                return words;
            }
        }
    }

    /// Waits until the child is connected and about to ask for its lock: of a child that waits for the
    /// lock, this is the last that is known.
    pub(crate) fn connects(&mut self) {
        assert_eq!(self.hears(), CONNECTED);
    }

    fn hears(&mut self) -> String {
        match self.said.recv_timeout(LIMIT) {
            Ok(words) => words,
            Err(problem) => {
                // Else its standard error would have no end.
                let (_, errors) = self.kill();
                panic!(
                    "the child says nothing, if there is a test `{TEST}` at all: {problem}\n{errors}"
                )
            }
        }
    }

    /// The token of the child's lock, which is what it says first.
    ///
    /// # Panics
    ///
    /// When it says nothing within 30 seconds, or something else.
    pub fn token(&mut self) -> u64 {
        self.says().parse().expect("a token")
    }

    /// By how many kilobytes its memory has grown with the names that it used after its warm-up: of a child that
    /// [uses names](super::Role::UseNames), and has said its token. The quarter in which it has grown most counts as
    /// much as the others on average: an allocator asks for more once, a leak grows with each name.
    ///
    /// # Panics
    ///
    /// When it says nothing for 30 seconds, or something else.
    pub fn growth(&mut self) -> usize {
        let resident = [(); PARTS + 1].map(|()| self.says().parse::<usize>().expect("a number"));
        let steps = resident.windows(2).map(|two| two[1].saturating_sub(two[0]));
        let largest = steps.clone().max().unwrap_or_default();
        (steps.sum::<usize>() - largest) * PARTS / (PARTS - 1)
    }

    /// Tells the child to go on, where its role waits for that.
    ///
    /// # Panics
    ///
    /// When it has ended.
    pub fn nudge(&mut self) {
        let input = self.process.stdin.as_mut().expect("piped");
        input.write_all(b"go on\n").expect("the child listens");
    }

    /// Kills the child as a crash would; how it ended, and its standard error.
    ///
    /// # Panics
    ///
    /// When its end was seen before.
    pub fn kill(&mut self) -> (ExitStatus, String) {
        self.process.kill().expect("our child");
        self.end()
    }

    /// Waits for the child's end; how it ended, and its standard error.
    ///
    /// # Panics
    ///
    /// When its end was seen before.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut errors = Vec::new();
        let mut pipe = self.process.stderr.take().expect("asked once");
        pipe.read_to_end(&mut errors).expect("a pipe");
        let status = self.process.wait().expect("our child");
        (status, String::from_utf8_lossy(&errors).into_owned())
    }

    /// Stops the child where it stands; returns when it does.
    ///
    /// # Panics
    ///
    /// When it has ended.
    pub fn freeze(&mut self) {
        stop::freeze(&mut self.process);
    }

    /// Lets a stopped child go on.
    ///
    /// # Panics
    ///
    /// When it has ended.
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
                // Nobody listens any more when the test is over.
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
        // It has ended already where the test was about that.
        if self.process.kill().is_ok() {
            let _status = self.process.wait();
        }
    }
}
