//! Tests of the kit's MariaDB and MySQL servers: start, freeze, crash and restart.

mod clock;
#[path = "../processes/mod.rs"]
mod processes;
mod session;
mod tls;

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use lock_testkit::servers::{SqlServer, SqlVendor};
use processes::{is_running, state};

const VENDORS: [SqlVendor; 2] = [SqlVendor::MariaDb, SqlVendor::MySql];

#[test]
fn servers_are_private_and_gone_when_dropped() {
    for vendor in SqlVendor::available() {
        let [first, second] = [SqlServer::start(vendor), SqlServer::start(vendor)];
        first.execute("create table entries (id int primary key, name text)");
        first.execute("insert into entries values (1, 'one'), (2, null)");
        assert_eq!(
            first.execute("select * from entries order by id"),
            "1\tone\n2\tNULL"
        );
        assert_eq!(second.execute("show tables"), "");
        assert_eq!(first.execute("select database()"), "locks");
        let version = first.execute("select version()");
        let is_mariadb = version.contains("MariaDB");
        assert_eq!(is_mariadb, vendor == SqlVendor::MariaDb, "{version}");
        assert_eq!(
            first.url(),
            format!("mysql://root@127.0.0.1:{}/locks", first.port())
        );

        let (directory, port, pid) = (first.directory().to_owned(), first.port(), first.pid());
        assert!(directory.join("log").exists());
        assert!(first.socket().exists());
        drop(first);
        assert!(!directory.exists(), "the directory is left");
        assert!(
            TcpStream::connect(("127.0.0.1", port)).is_err(),
            "someone still listens"
        );
        assert!(!is_running(pid), "the process is left");
    }
}

#[test]
fn errors_are_told() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::shared(vendor);
        let error = server.try_execute("select nothing").unwrap_err();
        assert!(error.starts_with("ERROR 1054 "), "{error}");
        let several = server.execute("select 1; select 'a b', 2");
        assert_eq!(several, "1\na b\t2");
    }
}

#[test]
fn root_comes_over_tcp_without_a_password() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::shared(vendor);
        let output = over_tcp(server)
            .arg("--execute=select current_user()")
            .output();
        let output = output.expect("the client starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            "root@127.0.0.1"
        );
    }
}

#[test]
fn what_makes_locks_is_at_its_default() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::shared(vendor);
        for (name, value) in [
            ("innodb_lock_wait_timeout", "50"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("max_connections", "151"),
            ("wait_timeout", "28800"),
        ] {
            let found = server.execute(&format!("select @@global.{name}"));
            assert_eq!(found, value, "{name} of {vendor:?}");
        }
        let isolation = match vendor {
            SqlVendor::MariaDb => "tx_isolation",
            SqlVendor::MySql => "transaction_isolation",
        };
        let found = server.execute(&format!("select @@global.{isolation}"));
        assert_eq!(found, "REPEATABLE-READ", "{vendor:?}");
    }
}

#[test]
fn arguments_reach_the_server() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::start_with(vendor, &["--max-connections=17"]);
        assert_eq!(server.execute("select @@max_connections"), "17");
        server.restart();
        assert_eq!(server.execute("select @@max_connections"), "17");
    }
}

#[test]
fn a_frozen_server_keeps_its_connections() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::start(vendor);
        let mut session = server.session();
        let id = session.run("select connection_id()");
        server.freeze();
        server.freeze();
        assert!(state(server.pid()).starts_with('T'), "it is not stopped");
        server.thaw();
        server.thaw();
        assert_eq!(session.run("select connection_id()"), id);
        server.freeze();
        drop(server);
    }
}

#[test]
fn a_killed_server_comes_back_with_its_data_on_its_port() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::start(vendor);
        server.execute("create table kept (id int primary key); insert into kept values (1)");
        let mut session = server.session();
        session.run("begin; insert into kept values (2)");
        let (port, pid) = (server.port(), server.pid());
        server.kill();
        server.kill();
        assert!(!is_running(pid));
        assert!(server.try_execute("select 1").is_err());
        server.restart();
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), pid);
        assert_eq!(server.execute("select id from kept"), "1");
        let pid = server.pid();
        server.restart();
        assert_ne!(server.pid(), pid);
    }
}

#[test]
fn the_shared_servers_outlive_the_test_that_started_them() {
    for vendor in SqlVendor::available() {
        let starting = std::thread::spawn(move || SqlServer::shared(vendor).pid());
        let pid = starting.join().expect("it starts");
        // A death signal that is bound to the ended thread would arrive within this time.
        std::thread::park_timeout(Duration::from_millis(50));
        assert_eq!(SqlServer::shared(vendor).pid(), pid);
        assert!(is_running(pid));
        assert_eq!(SqlServer::shared(vendor).vendor(), vendor);
    }
}

#[test]
fn vendors_are_those_that_are_there() {
    assert!(SqlVendor::MariaDb.is_available());
    let there = VENDORS.iter().filter(|vendor| vendor.is_available());
    assert_eq!(
        SqlVendor::available(),
        there.copied().collect::<Vec<SqlVendor>>()
    );
}

/// Returns the command of the server's client program, with a connection over TCP.
pub(crate) fn over_tcp(server: &SqlServer) -> Command {
    let mut command = server.client_command();
    command
        .args(["--protocol=tcp", "--host=127.0.0.1"])
        .arg(format!("--port={}", server.port()));
    command
}
