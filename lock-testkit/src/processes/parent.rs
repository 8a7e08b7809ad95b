//! The parent of a child: the process that starts the child, reads its messages and nudges it.

use std::fmt::Display;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};

use super::part::Part;

/// The prefix of the child's messages, which the output of the test harness does not have.
pub(super) const SAYS: &str = "child: ";

/// The message of a child before it requests its lock.
pub(super) const CONNECTED: &str = "connected";

/// The line that a child prints when its [`assert_excluded!`](crate::assert_excluded) fails.
pub(super) const TWO_HOLDERS: &str = "child saw two holders";

/// Reports a failed [`assert_excluded!`](crate::assert_excluded), if this process is a child.
pub(crate) fn tell_two_holders() {
    if Part::is_of_this_process() {
        println!("{TWO_HOLDERS}");
    }
}

pub(super) struct Parent {
    nudges: Receiver<()>,
}

/// Sends a message to the parent of this process.
pub(super) fn say(words: impl Display) {
    println!("{SAYS}{words}");
}

impl Parent {
    /// Listens to the parent process, and ends this process when the parent is gone.
    pub(super) fn listen() -> Self {
        let (sender, nudges) = channel();
        std::thread::spawn(move || {
            for _line in std::io::stdin().lock().lines().map_while(Result::ok) {
                let _unheard = sender.send(());
            }
            std::process::exit(0);
        });
        Self { nudges }
    }

    pub(super) fn say(&self, words: impl Display) {
        say(words);
    }

    pub(super) fn wait_for_nudge(&self) {
        self.nudges.recv().expect("this process ends before");
    }
}
