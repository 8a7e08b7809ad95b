//! What the child processes do.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lock_core::{Clock, LockGuard, Mode};
use lock_mysql::{MySqlHold, MySqlLock};
use tokio::runtime::Runtime;

use crate::child::{ROLE, SAYS, SERVER};
use crate::{connect, take};

/// The child's side of every test here. Started as an ordinary test, it has no role to play.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let nudges = nudges();
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["hold", hold, mode, key, ttl] => {
            let (_runtime, held) = holding(hold, mode, key, ttl);
            say(held.1.token());
            nudges.recv().expect("killed before");
        }
        ["watch", hold, key, ttl] => watch(hold, key, ttl),
        _ => panic!("no such role: {role}"),
    }
}

fn say(words: impl std::fmt::Display) {
    println!("{SAYS}{words}");
}

/// The nudges of the parent process. Without a parent there is nothing to do here.
fn nudges() -> Receiver<()> {
    let (sender, nudges) = channel();
    std::thread::spawn(move || {
        for _line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _unheard = sender.send(());
        }
        std::process::exit(0);
    });
    nudges
}

fn holding(hold: &str, mode: &str, key: &str, ttl: &str) -> (Runtime, (MySqlLock, LockGuard)) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let url = std::env::var(SERVER).expect("the parent names it");
    let hold = match hold {
        "row" => MySqlHold::Row,
        _ => MySqlHold::Lease,
    };
    let mode = match mode {
        "exclusive" => Mode::Exclusive,
        "shared" => Mode::Shared,
        _ => Mode::permit(mode.parse().expect("a number of permits")).expect("at least one"),
    };
    let ttl = Duration::from_millis(ttl.parse().expect("a number"));
    let held = runtime.block_on(async {
        let locks = connect(url, hold).await;
        let guard = take(&locks, key, mode, ttl).await;
        (locks, guard)
    });
    (runtime, held)
}

/// Looks at its guard all the time, and tells what it sees first after it stood still.
fn watch(hold: &str, key: &str, ttl: &str) {
    let (runtime, (_locks, guard)) = holding(hold, "exclusive", key, ttl);
    let ttl = Duration::from_millis(ttl.parse().expect("a number"));
    // It is stopped any time after it has told its token.
    let mut before = Clock::Boot.now();
    say(guard.token());
    let first_look = loop {
        let held = guard.is_held();
        let now = Clock::Boot.now();
        if now.since(before) > ttl {
            // Stopped between the look and the clock, or before the look: only the next look is
            // certainly one after the stop.
            break guard.is_held();
        }
        assert!(held, "lost while it was not stopped");
        before = now;
        std::thread::park_timeout(Duration::from_millis(1));
    };
    say(first_look);
    let released = runtime.block_on(guard.release());
    say(format!("{:?}", released.expect("the server runs")));
}
