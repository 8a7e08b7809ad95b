//! What the child processes do.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use lock_core::{Clock, LockGuard, Mode};
use lock_redis::RedisLock;
use tokio::runtime::Runtime;

use crate::child::{ROLE, SAYS, SERVER};
use crate::names::use_names;
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
        ["hold", mode, key, ttl] => hold(mode, key, ttl, &nudges),
        ["abort", key, ttl] => abort(key, ttl),
        ["watch", key, ttl] => watch(key, ttl, &nudges),
        ["tell", key, ttl] => tell(key, ttl, &nudges),
        ["end", flavor, shape, ttl] => end(flavor, shape, ttl, &nudges),
        ["names", count] => names(count),
        _ => panic!("no such role: {role}"),
    }
}

pub(crate) fn say(words: impl std::fmt::Display) {
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

fn server() -> String {
    std::env::var(SERVER).expect("the parent names it")
}

fn milliseconds(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("a number"))
}

fn mode(text: &str) -> Mode {
    match text {
        "exclusive" => Mode::Exclusive,
        "shared" => Mode::Shared,
        _ => Mode::permit(text.parse().expect("a number of permits")).expect("at least one"),
    }
}

fn runtime(flavor: &str) -> Runtime {
    let mut builder = match flavor {
        "current_thread" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build().expect("a runtime")
}

async fn connect_and_take(mode: Mode, key: &str, ttl: Duration) -> (RedisLock, LockGuard) {
    let locks = connect(server()).await;
    let guard = take(&locks, key, mode, ttl).await;
    (locks, guard)
}

/// Holds a lock until it is killed.
fn hold(as_what: &str, key: &str, ttl: &str, nudges: &Receiver<()>) {
    let runtime = runtime("multi_thread");
    let held = runtime.block_on(connect_and_take(mode(as_what), key, milliseconds(ttl)));
    say(held.1.token());
    nudges.recv().expect("killed before");
}

/// Ends without unwinding, as a program that is built with `panic = "abort"` does.
fn abort(key: &str, ttl: &str) {
    let runtime = runtime("multi_thread");
    let held = runtime.block_on(connect_and_take(Mode::Exclusive, key, milliseconds(ttl)));
    say(held.1.token());
    std::process::abort();
}

/// Tells, each time it is asked, what its wall clock shows and whether it holds the lock.
fn tell(key: &str, ttl: &str, nudges: &Receiver<()>) {
    let runtime = runtime("multi_thread");
    let held = runtime.block_on(connect_and_take(Mode::Exclusive, key, milliseconds(ttl)));
    say(held.1.token());
    while nudges.recv().is_ok() {
        let wall = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        say(format!("{} {}", wall.as_secs(), held.1.is_held()));
    }
}

/// Looks at its guard all the time, and tells what it sees first after it stood still.
fn watch(key: &str, ttl: &str, nudges: &Receiver<()>) {
    let ttl = milliseconds(ttl);
    let runtime = runtime("multi_thread");
    let (_locks, guard) = runtime.block_on(connect_and_take(Mode::Exclusive, key, ttl));
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
    let told = runtime.block_on(async {
        tokio::time::timeout(Duration::ZERO, guard.lost())
            .await
            .is_ok()
    });
    say(told);
    say(guard.remaining().is_zero());
    // What it was about to write, and when it gets round to it.
    nudges.recv().expect("the parent says when");
    say(guard.token());
    say(format!(
        "{:?}",
        runtime.block_on(guard.release()).expect("the server runs")
    ));
}

/// Ends a runtime or the program while a guard is held, or was dropped just now.
fn end(flavor: &str, shape: &str, ttl: &str, nudges: &Receiver<()>) {
    let runtime = runtime(flavor);
    let (locks, guard) =
        runtime.block_on(connect_and_take(Mode::Exclusive, "k", milliseconds(ttl)));
    let limit = Duration::from_millis(100);
    match shape {
        "main_right_after_drop" => {
            drop((guard, locks));
            say("returns");
            return;
        }
        "main_while_held" => {
            // As from a static: nothing drops it.
            std::mem::forget(guard);
            say("returns");
            return;
        }
        "runtime_dropped_with_task" => {
            runtime.spawn(async move {
                let _held = guard;
                std::future::pending::<()>().await;
            });
            drop(runtime);
        }
        "shutdown_background" => {
            drop(guard);
            runtime.shutdown_background();
        }
        "shutdown_timeout" => {
            let _inside = runtime.spawn(async move {
                let _held = guard;
                std::future::pending::<()>().await;
            });
            runtime.shutdown_timeout(limit);
        }
        "dropped_after_runtime" => {
            drop(runtime);
            drop(guard);
        }
        _ => panic!("no such shape: {shape}"),
    }
    say("ended");
    nudges.recv().expect("the parent says when");
    drop(locks);
}

/// Uses names once each, and tells how much memory it has after the first few and after all.
fn names(count: &str) {
    let count: usize = count.parse().expect("a number");
    let runtime = runtime("multi_thread");
    runtime.block_on(async {
        let clients = [connect(server()).await, connect(server()).await];
        use_names(&clients, 0..count / 5).await;
        say(resident());
        use_names(&clients, count / 5..count).await;
        say(resident());
    });
}

/// The memory that this process occupies, in kilobytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.and_then(|line| line.split_whitespace().next());
    text.and_then(|text| text.parse().ok())
        .expect("a number of kB")
}
