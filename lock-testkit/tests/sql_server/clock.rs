//! Tests of servers whose clock is set ahead or back.

use std::sync::mpsc;
use std::time::Duration;

use lock_testkit::servers::{ServerProcess, SqlServer, SqlVendor};
use tokio::time::Instant;

#[test]
fn a_clock_can_be_set() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::start_with_settable_clock::<&str>(vendor, &[]);
        let now = || -> f64 {
            let now = server.execute("select unix_timestamp(now(6))");
            now.parse().expect("a number")
        };
        let right = now();
        let hour = Duration::from_secs(3600);
        server.set_clock_ahead(hour);
        assert!((now() - right - 3600.0).abs() <= 60.0, "{vendor:?}");
        server.set_clock_back(hour);
        assert!((right - now() - 3600.0).abs() <= 60.0, "{vendor:?}");
        server.set_clock_ahead(Duration::ZERO);
        assert!((now() - right).abs() <= 60.0, "{vendor:?}");
        server.set_clock_ahead(hour);
        server.restart();
        assert!((now() - right - 3600.0).abs() <= 60.0, "{vendor:?}");
    }
}

#[test]
fn waits_last_as_long_whatever_the_clock_says() {
    const HOUR: Duration = Duration::from_secs(3600);

    for vendor in SqlVendor::available() {
        let server =
            SqlServer::start_with_settable_clock(vendor, &["--innodb-lock-wait-timeout=1"]);
        server.execute("create table held (id int primary key); insert into held values (1)");
        let mut session = server.session();
        session.run("begin; select id from held for update");
        assert_eq!(session.run("select get_lock('held', 0)"), ["1"]);
        let sets = [
            ServerProcess::set_clock_ahead,
            ServerProcess::set_clock_back,
        ];
        for set in sets {
            set(&server, HOUR);
            std::thread::scope(|scope| {
                for wait in [
                    "select sleep(1)",
                    "select get_lock('held', 1)",
                    "select id from held for update",
                ] {
                    let server = &server;
                    scope.spawn(move || {
                        let took = time(server, wait);
                        assert!(
                            took > Duration::from_millis(900),
                            "{vendor:?}, {wait}: {took:?}"
                        );
                    });
                }
            });
        }
    }
}

/// Returns the time that the server takes to answer `sql`, also with an error.
///
/// # Panics
///
/// If the server does not answer within 20 seconds: longer than any wait of this test.
fn time(server: &SqlServer, sql: &str) -> Duration {
    let begin = Instant::now();
    let (answers, answer) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || answers.send(server.try_execute(sql)));
        if answer.recv_timeout(Duration::from_secs(20)).is_err() {
            server.kill();
            panic!("{sql} does not end");
        }
    });
    begin.elapsed()
}
