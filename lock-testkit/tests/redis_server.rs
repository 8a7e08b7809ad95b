//! Tests of the kit's Redis servers: start, freeze, crash and restart.

mod processes;

use std::time::Duration;

use lock_testkit::servers::{Authority, RedisServer, Reply, RespClient};
use processes::{is_running, state};

#[test]
fn servers_are_private_and_gone_when_dropped() {
    let [first, second] = [RedisServer::start(), RedisServer::start()];
    let set = first.client().command(&["SET", "k", "v"]).expect("a reply");
    assert_eq!(set.text().as_deref(), Some("OK"));
    assert_eq!(
        first
            .client()
            .command(&["KEYS", "*"])
            .expect("a reply")
            .texts(),
        ["k"]
    );
    let size = second.client().command(&["DBSIZE"]).expect("a reply");
    assert_eq!(size.integer(), Some(0));
    let (directory, port, pid) = (first.directory().to_owned(), first.port(), first.pid());
    assert!(directory.join("log").exists());
    drop(first);
    assert!(!directory.exists(), "the directory is left");
    assert!(RespClient::connect(port).is_err(), "someone still listens");
    assert!(!is_running(pid), "the process is left");
}

#[test]
fn a_frozen_server_keeps_its_connections() {
    let server = RedisServer::start();
    let mut client = server.client();
    server.freeze();
    server.freeze();
    assert!(state(server.pid()).starts_with('T'), "it is not stopped");
    server.thaw();
    server.thaw();
    assert_eq!(
        client
            .command(&["PING"])
            .expect("a reply")
            .text()
            .as_deref(),
        Some("PONG")
    );
    server.freeze();
    drop(server);
}

#[test]
fn a_killed_server_comes_back_empty_on_its_port() {
    let server = RedisServer::start();
    server
        .client()
        .command(&["SET", "k", "v"])
        .expect("a reply");
    let (port, pid) = (server.port(), server.pid());
    server.kill();
    server.kill();
    assert!(!is_running(pid));
    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(
        server.client().command(&["GET", "k"]).expect("a reply"),
        Reply::Nil
    );
    let pid = server.pid();
    server.restart();
    assert_ne!(server.pid(), pid);
}

#[test]
fn arguments_reach_the_server() {
    let kept = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    kept.client().command(&["SET", "k", "v"]).expect("a reply");
    kept.restart();
    let value = kept.client().command(&["GET", "k"]).expect("a reply");
    assert_eq!(value.text().as_deref(), Some("v"));

    let guarded = RedisServer::start_with(&["--requirepass", "secret"]);
    let mut client = guarded.client();
    assert!(
        matches!(client.command(&["DBSIZE"]).expect("a reply"), Reply::Error(error) if error.starts_with("NOAUTH"))
    );
    client.command(&["AUTH", "secret"]).expect("a reply");
    assert_eq!(
        client.command(&["DBSIZE"]).expect("a reply"),
        Reply::Integer(0)
    );

    let with_user =
        RedisServer::start_with(&["--user", "locker", "on", ">secret", "~lock:*", "+@all"]);
    let mut client = with_user.client();
    let login = client
        .command(&["AUTH", "locker", "secret"])
        .expect("a reply");
    assert_eq!(login.text().as_deref(), Some("OK"), "{login:?}");
    assert!(matches!(
        client.command(&["GET", "other"]).expect("a reply"),
        Reply::Error(_)
    ));
}

#[test]
fn a_server_with_tls_has_two_ports_and_certificates_of_its_authority() {
    assert_eq!(RedisServer::start().tls_url(), None);
    let authority = Authority::new();
    let server = RedisServer::start_with_tls(&authority, &["--maxclients", "50"]);
    let url = server.tls_url().expect("it was started with TLS");
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    assert!(url.starts_with("rediss://127.0.0.1:"), "{url}");
    assert_ne!(port, server.port());
    for _ in 0..2 {
        assert!(server.client().command(&["PING"]).is_ok());
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        server.restart();
    }
    let limit = server.client().command(&["CONFIG", "GET", "maxclients"]);
    assert_eq!(limit.expect("a reply").texts(), ["maxclients", "50"]);

    let [first, second] = [("DNS:one", 1), ("DNS:two", -1)].map(|(n, d)| authority.issue(n, d));
    assert_ne!(first.cert, second.cert);
    let directory = authority.ca().parent().unwrap().to_owned();
    for file in [authority.ca(), first.cert, first.key, second.cert] {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("-----BEGIN "), "{}: {text}", file.display());
    }
    drop(authority);
    assert!(!directory.exists(), "the directory is left");
}

#[test]
fn replies_of_every_kind_are_read() {
    let server = RedisServer::start();
    let mut client = server.client();
    let script = "return {1, 'two', {'a\\r\\nb', false}, redis.status_reply('fine')}";
    let reply = client.command(&["EVAL", script, "0"]).expect("a reply");
    let text = |text: &str| Reply::Text(text.as_bytes().to_vec());
    assert_eq!(
        reply,
        Reply::Array(vec![
            Reply::Integer(1),
            text("two"),
            Reply::Array(vec![text("a\r\nb"), Reply::Nil]),
            text("fine"),
        ])
    );
    let binary: [&[u8]; 3] = [b"SET", b"\xFF\0key", b"\r\n"];
    client.command(&binary).expect("a reply");
    assert_eq!(
        client
            .command(&[&b"GET"[..], b"\xFF\0key"])
            .expect("a reply"),
        text("\r\n")
    );
}

#[test]
fn a_clock_can_be_set() {
    let server = RedisServer::start_with_settable_clock::<&str>(&[]);
    let mut client = server.client();
    let mut now = || match client.command(&["TIME"]).expect("a reply") {
        Reply::Array(parts) => parts[0]
            .text()
            .expect("seconds")
            .parse::<i64>()
            .expect("a number"),
        reply => panic!("no time: {reply:?}"),
    };
    let right = now();
    let hour = Duration::from_secs(3600);
    server.set_clock_ahead(hour);
    assert!((now() - right - 3600).abs() <= 60);
    server.set_clock_back(hour);
    assert!((right - now() - 3600).abs() <= 60);
    server.set_clock_ahead(Duration::ZERO);
    assert!((now() - right).abs() <= 60);
}

#[test]
fn the_shared_server_outlives_the_test_that_started_it() {
    let starting = std::thread::spawn(|| RedisServer::shared().pid());
    let pid = starting.join().expect("it starts");
    // A death signal that is bound to the ended thread would arrive within this time.
    std::thread::park_timeout(Duration::from_millis(50));
    assert_eq!(RedisServer::shared().pid(), pid);
    assert!(is_running(pid));
    assert!(RedisServer::shared().client().command(&["PING"]).is_ok());
}
