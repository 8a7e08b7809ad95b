//! The first answer of a server, which shows why it refuses a connection.

use std::io;

use lock_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::{BACKEND, explain};

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Maximum length of the first line, above which no known server answers.
const LENGTH_MAX: u64 = 2048;

/// First byte of a TLS server's answer to plain text.
const TLS_ALERT: u8 = 0x15;

/// Sends a `PING` before the driver takes the connection over.
///
/// A server that refuses a client writes the reason and closes. The driver would report a broken
/// connection only, which is retried. A server that needs a password refuses the `PING`, too; the
/// driver then authenticates.
pub(crate) async fn preflight<S>(stream: &mut S) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // The server may have closed already; its last line can still be read.
    let asked = ask(stream).await;
    let mut word = Vec::new();
    let mut reading = stream.take(LENGTH_MAX);
    // Another first byte is no Redis server, which may never end a line.
    while !word.ends_with(b"\n") && word.first().is_none_or(|first| b"+-".contains(first)) {
        match reading.read_buf(&mut word).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if is_closed(&error) => break,
            Err(error) => return Err(explain(error)),
        }
    }
    let word = String::from_utf8_lossy(&word);
    if !word.is_empty() {
        return judge(&word);
    }
    match asked {
        Err(error) if !is_closed(&error) => Err(explain(error)),
        Ok(()) | Err(_) => Err(closed()),
    }
}

async fn ask<S: AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    stream.write_all(PING).await?;
    stream.flush().await
}

fn judge(word: &str) -> Result<()> {
    let word = word.trim_end();
    let (kind, advice) = if word.starts_with("-DENIED") {
        (
            ErrorKind::Denied,
            "set a password or a user on the server, and put it into the url",
        )
    } else if word.starts_with("-ERR max number of clients") {
        (
            ErrorKind::Unavailable,
            "raise maxclients, or close connections that CLIENT LIST shows",
        )
    } else if word.starts_with(['+', '-']) {
        return Ok(());
    } else if word.as_bytes().first() == Some(&TLS_ALERT) {
        let message = "the server expects TLS there: use rediss://, or its plain port";
        return Err(Error::new(ErrorKind::Unavailable, message).with_backend(BACKEND));
    } else {
        (ErrorKind::Backend, "is this really a Redis server?")
    };
    let said: String = word.chars().take(200).collect();
    Err(Error::new(kind, format!("the server says {said:?}: {advice}")).with_backend(BACKEND))
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind as Io;

    matches!(
        error.kind(),
        Io::BrokenPipe | Io::ConnectionAborted | Io::ConnectionReset | Io::UnexpectedEof
    )
}

fn closed() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the server closed the connection at once: look at its log, whether it is a Redis server, and whether it expects TLS there (rediss://, perhaps with a client certificate)",
    )
    .with_backend(BACKEND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_doors_are_told_from_open_ones() {
        for open in [
            "+PONG\r\n",
            "-NOAUTH Authentication required.\r\n",
            "-NOPERM this user",
        ] {
            assert!(judge(open).is_ok(), "{open}");
        }
        for (closed, kind, advice) in [
            (
                "-DENIED Redis is running in protected mode because\r\n",
                ErrorKind::Denied,
                "password",
            ),
            (
                "-ERR max number of clients reached\r\n",
                ErrorKind::Unavailable,
                "maxclients",
            ),
            ("\u{15}\u{3}\u{3}", ErrorKind::Unavailable, "rediss://"),
            (
                "HTTP/1.1 400 Bad Request\r\n",
                ErrorKind::Backend,
                "really a Redis",
            ),
        ] {
            let error = judge(closed).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
