//! The other end of a child: whoever started it, listens and nudges.

use std::fmt::Display;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};

use super::part::Part;

/// Stands before what a child says, to tell it from what the test harness prints.
pub(super) const SAYS: &str = "child: ";

/// What a child says before it asks for its lock.
pub(super) const CONNECTED: &str = "connected";

/// What a child says when its [`assert_excluded!`](crate::assert_excluded) fails.
pub(super) const TWO_HOLDERS: &str = "child saw two holders";

/// Tells the parent, if this process is a child.
pub(crate) fn tell_two_holders() {
    if Part::is_of_this_process() {
        println!("{TWO_HOLDERS}");
    }
}

pub(super) struct Parent {
    nudges: Receiver<()>,
}

impl Parent {
    /// Listens to the parent process. Without one there is nothing to do here: this process ends.
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
        println!("{SAYS}{words}");
    }

    pub(super) fn wait_for_nudge(&self) {
        self.nudges.recv().expect("this process ends before");
    }
}
