//! Explains why a connection to a server fails. The driver does not report the reason, so this
//! module asks the server without the driver.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use lock_core::{Error, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::error_of;

/// The time that each question may take.
const LIMIT: Duration = Duration::from_millis(500);

/// The time that a server may take to close a connection that it refuses.
const DOOR: Duration = Duration::from_millis(100);

/// The beginning of a handshake of TLS 1.2, with one cipher suite and nothing else.
const CLIENT_HELLO: &[u8] = &[
    0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 0, 0, 2, 0xC0, 0x2F, 1, 0,
];

const CLOSES_AT_ONCE: &str = "the server closes new connections at once: it has as many as it allows from this address (maxClientCnxns, 60 by default), so close some or raise that; or look at its log";

/// The answer of a server to a question.
enum Said {
    /// The server has closed the connection.
    Nothing,
    Silence,
    Words(Vec<u8>),
}

/// Returns the reason why there is no session on `server`.
pub(crate) async fn diagnose(server: &str, is_secure: bool, has_user: bool) -> Error {
    let reason = reason(server, is_secure, has_user).await;
    error_of(ErrorKind::Unavailable, reason)
}

async fn reason(server: &str, is_secure: bool, has_user: bool) -> Cow<'static, str> {
    let mut stream = match timeout(LIMIT, TcpStream::connect(server)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if was_closed(&error) => return CLOSES_AT_ONCE.into(),
        Ok(Err(error)) => {
            return format!(
                "cannot connect ({error}): check host and port, and that the server runs and is reachable"
            )
            .into();
        }
        Err(_) => {
            return "connecting timed out: check host and port, and the firewalls in between"
                .into();
        }
    };
    match read(&mut stream, DOOR).await {
        Said::Nothing => return CLOSES_AT_ONCE.into(),
        Said::Words(words) => return other_product(&words),
        Said::Silence => {}
    }
    match ask(stream, b"srvr\n").await {
        Said::Words(words) if words.starts_with(b"Zookeeper version") && is_secure => {
            return "the server speaks plain text there: use its TLS port (secureClientPort), or a url or configuration without TLS".into();
        }
        Said::Words(words) if words.starts_with(b"Zookeeper version") => {
            let user = if has_user { ", and the user" } else { "" };
            // The server may have closed another connection since, so that it had room for this
            // question.
            return format!(
                "the server runs but grants no session: it may have had as many connections as it allows from this address (maxClientCnxns), so close some or raise that; or look at its log, and check that most servers of the ensemble run{user}"
            )
            .into();
        }
        Said::Words(words) if words.starts_with(b"This ZooKeeper") => {
            return "the server is not serving: check that most servers of the ensemble run".into();
        }
        Said::Words(words) if !is_tls(&words) && !words.starts_with(b"srvr is not") => {
            return other_product(&words);
        }
        Said::Words(_) | Said::Nothing | Said::Silence => {}
    }
    if !is_secure && speaks_tls(server).await {
        return "the server speaks TLS there: use its plain port (clientPort), or turn TLS on (zookeepers://)".into();
    }
    "no answer in time: check that most servers of the ensemble run and are reachable".into()
}

/// Names the kind of server that says `words`, and the port of ZooKeeper.
fn other_product(words: &[u8]) -> Cow<'static, str> {
    let (who, scheme) = match words {
        [b'-', b'A'..=b'Z', ..] => ("a Redis server", "use redis://, or "),
        [_, _, _, 0, 0x0a | 0xff, ..] => ("a MySQL server", "use mysql://, or "),
        _ => ("something else than ZooKeeper", "use "),
    };
    format!("{who} answers there: {scheme}the port of ZooKeeper, 2181 by default").into()
}

/// Asks a server without TLS for its version. The server may refuse to answer.
pub(crate) async fn version(server: &str) -> Option<String> {
    let stream = timeout(LIMIT, TcpStream::connect(server))
        .await
        .ok()?
        .ok()?;
    let Said::Words(words) = ask(stream, b"srvr\n").await else {
        return None;
    };
    let text = String::from_utf8_lossy(&words).into_owned();
    let version = text.strip_prefix("Zookeeper version: ")?;
    let end = version.find(['-', ',', '\n'])?;
    Some(version[..end].to_owned())
}

/// Returns true if the server closed the connection right after accepting it.
fn was_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

async fn speaks_tls(server: &str) -> bool {
    let Ok(Ok(stream)) = timeout(LIMIT, TcpStream::connect(server)).await else {
        return false;
    };
    matches!(ask(stream, CLIENT_HELLO).await, Said::Words(words) if is_tls(&words))
}

/// Returns true for a TLS handshake message or alert.
fn is_tls(words: &[u8]) -> bool {
    matches!(words, [0x15 | 0x16, 3, ..])
}

async fn ask(mut stream: TcpStream, question: &[u8]) -> Said {
    match stream.write_all(question).await {
        Ok(()) => read(&mut stream, LIMIT).await,
        Err(_) => Said::Nothing,
    }
}

async fn read(stream: &mut TcpStream, limit: Duration) -> Said {
    let mut words = vec![0; 64];
    let reading: Result<io::Result<usize>, _> = timeout(limit, stream.read(&mut words)).await;
    match reading {
        Ok(Ok(0) | Err(_)) => Said::Nothing,
        Ok(Ok(length)) => {
            words.truncate(length);
            Said::Words(words)
        }
        Err(_) => Said::Silence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Returns the diagnosis of a server that treats each accepted connection with `close`.
    async fn told_by(close: impl AsyncFn(TcpStream)) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let accepted = async {
            while let Ok((stream, _)) = listener.accept().await {
                close(stream).await;
            }
        };
        let asked = diagnose(&server, false, false);
        tokio::select! {
            biased;
            () = accepted => unreachable!("a listener without an end"),
            error = asked => error.to_string(),
        }
    }

    #[tokio::test]
    async fn a_server_that_closes_at_once_is_told_however_it_closes() {
        let ended = told_by(async |stream| drop(stream)).await;
        let reset = told_by(async |stream| drop(stream.set_zero_linger())).await;
        let both = told_by(async |mut stream| {
            drop(stream.shutdown().await);
            drop(stream.set_zero_linger());
        })
        .await;
        for told in [ended, reset, both] {
            assert!(told.contains("maxClientCnxns"), "{told}");
        }
    }

    #[tokio::test]
    async fn a_server_that_has_room_again_when_it_is_asked_may_have_had_none_before() {
        let told = told_by(async |mut stream| {
            let asked = stream.read_u8().await;
            asked.expect("a question");
            let answer = stream.write_all(b"Zookeeper version: 3.8.0\n").await;
            answer.expect("somebody listens");
        })
        .await;
        assert!(told.contains("maxClientCnxns"), "{told}");
        assert!(told.contains("ensemble"), "{told}");
    }
}
