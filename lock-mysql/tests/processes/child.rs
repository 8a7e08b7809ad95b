//! Another process: this test program once more, in one of the [`roles`](crate::roles).

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lock_testkit::servers::SqlServer;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Names the role of a child, with its arguments.
pub(crate) const ROLE: &str = "LOCK_TEST_ROLE";

/// Where the child's server is.
pub(crate) const SERVER: &str = "LOCK_TEST_SERVER";

/// Stands before what a child says, to tell it from what the test harness prints.
pub(crate) const SAYS: &str = "child: ";

/// How long a child may take to say what is expected of it.
const LIMIT: Duration = Duration::from_secs(30);

/// A child process, killed by its process id when it is dropped. It ends by itself when its input
/// does, which is when this process is gone.
pub(crate) struct Child {
    process: std::process::Child,
    said: Receiver<String>,
}

impl Child {
    /// Starts a child in `role`.
    pub(crate) fn start(server: &SqlServer, role: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .args(["roles::child", "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(SERVER, server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child process");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let (saying, said) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, words)) = line.split_once(SAYS) {
                    // Nobody listens any more when the test is over.
                    let _unheard = saying.send(words.to_owned());
                }
            }
        });
        Self { process, said }
    }

    /// What the child says next.
    pub(crate) fn says(&mut self) -> String {
        match self.said.recv_timeout(LIMIT) {
            Ok(words) => words,
            Err(problem) => {
                // Else its standard error would have no end.
                let (_, errors) = self.kill();
                panic!("the child says nothing: {problem}\n{errors}")
            }
        }
    }

    /// Kills the child as a crash would; how it ended, and its standard error.
    pub(crate) fn kill(&mut self) -> (ExitStatus, String) {
        self.process.kill().expect("our child");
        self.end()
    }

    /// Waits for the child's end; how it ended, and its standard error.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let mut errors = String::new();
        let mut pipe = self.process.stderr.take().expect("asked once");
        pipe.read_to_string(&mut errors).expect("text");
        (self.process.wait().expect("our child"), errors)
    }

    /// Stops the child where it stands; returns when it does.
    pub(crate) fn freeze(&mut self) {
        kill_process(self.pid(), Signal::STOP).expect("our child");
        let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), until).expect("our child");
    }

    /// Lets a stopped child go on.
    pub(crate) fn thaw(&mut self) {
        kill_process(self.pid(), Signal::CONT).expect("our child");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
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
