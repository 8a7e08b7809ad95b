//! An echo server, and checks of the data that its clients receive.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::park_timeout;
use std::time::Duration;

use lock_testkit::faults::Proxy;
use tokio::time::Instant;

pub(crate) const PROMPT: Duration = Duration::from_secs(5);

/// The time without data that counts as silence.
const SILENCE: Duration = Duration::from_millis(80);

/// An echo server that counts received bytes and closed connections.
#[derive(Clone)]
pub(crate) struct Echo {
    pub(crate) port: u16,
    pub(crate) received: Arc<AtomicUsize>,
    pub(crate) closed: Arc<AtomicUsize>,
}

impl Echo {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let echo = Self {
            port: listener.local_addr().expect("bound").port(),
            received: Arc::default(),
            closed: Arc::default(),
        };
        let server = echo.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || server.serve(stream));
            }
        });
        echo
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            self.received.fetch_add(length, Ordering::SeqCst);
            if stream.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        self.closed.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn received(&self) -> usize {
        self.received.load(Ordering::SeqCst)
    }
}

pub(crate) fn eventually(what: &str, predicate: impl Fn() -> bool) {
    let end = Instant::now() + PROMPT;
    while !predicate() {
        assert!(Instant::now() < end, "not within {PROMPT:?}: {what}");
        park_timeout(Duration::from_millis(2));
    }
}

pub(crate) fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).expect("it listens");
    stream.set_read_timeout(Some(PROMPT)).expect("a timeout");
    stream
}

pub(crate) fn hears(client: &mut TcpStream, expected: &str) {
    let mut heard = vec![0; expected.len()];
    client
        .read_exact(&mut heard)
        .expect("an answer within the limit");
    assert_eq!(String::from_utf8_lossy(&heard), expected);
}

pub(crate) fn says(client: &mut TcpStream, what: &str) {
    client.write_all(what.as_bytes()).expect("it is open");
}

pub(crate) fn is_echoed(client: &mut TcpStream, what: &str) {
    says(client, what);
    hears(client, what);
}

pub(crate) fn hears_nothing(client: &mut TcpStream) {
    client.set_read_timeout(Some(SILENCE)).expect("a timeout");
    let error = client.read(&mut [0; 16]).expect_err("silence");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    client.set_read_timeout(Some(PROMPT)).expect("a timeout");
}

pub(crate) fn is_cut(client: &mut TcpStream) {
    assert_eq!(client.read(&mut [0; 16]).expect("an orderly end"), 0);
}

pub(crate) fn is_reset(client: &mut TcpStream) {
    let error = client.read(&mut [0; 16]).expect_err("a disorderly end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}
