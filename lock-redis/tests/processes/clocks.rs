//! Clocks that a program or its tests may move: the validity of a hold depends on none of them.

use std::process::Command;
use std::thread::park_timeout;
use std::time::{Duration, SystemTime};

use lock_core::backend::Released;
use lock_core::{DistributedLockExt, Mode};
use lock_testkit::processes::{Child, Role};
use lock_testkit::servers::RedisServer;
use lock_testkit::steady;

use crate::{connect, request, take};

#[tokio::test(start_paused = true)]
async fn paused_time_loses_nothing() {
    const TTL: Duration = Duration::from_secs(3);
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    let guard = take(&locks, "k", Mode::Exclusive, TTL).await;
    for _ in 0..10 {
        tokio::time::advance(TTL * 3600).await;
        assert!(guard.is_held(), "lost by time that did not pass");
    }
    // Real time passes, in which the keeper thread renews.
    for _ in 0..3 {
        let passing = tokio::task::spawn_blocking(|| park_timeout(TTL / 2));
        passing.await.expect("it only waits");
    }
    assert!(guard.is_held(), "not renewed while time was paused");
    lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

/// Returns the path of the library that `faketime` preloads to change the wall clock.
fn faketime_library() -> String {
    let output = Command::new("faketime").args(["-f", "+0", "env"]).output();
    let output =
        output.expect("`apt-get install faketime` brings it, and scripts/test installs it");
    let environment = String::from_utf8(output.stdout).expect("text");
    let mut lines = environment.lines();
    let library = lines.find_map(|line| line.strip_prefix("LD_PRELOAD="));
    library.expect("it preloads its library").to_owned()
}

fn wall_clock() -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    now.as_secs().try_into().expect("in range")
}

#[test]
fn a_wall_clock_that_is_set_changes_nothing() {
    steady(async || {
        const TTL: Duration = Duration::from_millis(1500);
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let clock = server.directory().join("clock");
        let set = |offset: &str| std::fs::write(&clock, offset).expect("a file of the test");
        set("+0");
        let library = faketime_library();
        let environment = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", clock.to_str().expect("text")),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        let request = request("k", Mode::Exclusive, TTL);
        let mut child = Child::start_with(server.url(), &request, Role::Tell, &environment);
        child.token();
        for (offset, sign) in [("+1h", 1), ("-1h", -1), ("+10y", 1), ("-10y", -1)] {
            set(offset);
            tokio::time::sleep(TTL).await;
            child.nudge();
            let said = child.says();
            let (wall, held) = said.split_once(' ').expect("two words");
            let ahead = wall.parse::<i64>().expect("seconds") - wall_clock();
            assert!(ahead * sign > 3000, "the clock is not set: {ahead} s");
            assert_eq!(held, "true", "lost by a clock that was set {offset}");
            lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
        }
    });
}
