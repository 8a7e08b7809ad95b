//! The messages between a bench and its workers, one line of JSON each.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines, ReadHalf, WriteHalf,
};

use crate::bench::referee::Turn;
use crate::problem::Problem;

/// An order for a worker. The worker ends when the link is closed.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Order {
    /// Connect, and answer [`Answer::Ready`].
    Prepare(Job),
    /// Let all tasks take and release the key from `begins` to `ends`.
    Rush { begins: u64, ends: u64 },
    /// Take the key, and answer [`Answer::Has`].
    Ask,
    /// Release the key.
    Release,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct Job {
    pub(crate) url: String,
    pub(crate) hand_off: Option<Duration>,
    pub(crate) key: String,
    pub(crate) tasks: u32,
    /// True if other processes want the key, too.
    pub(crate) has_rivals: bool,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Answer {
    Ready,
    Rushed(Rushed),
    Has {
        token: u64,
        at: u64,
    },
    /// The key was released; `at` is the time just before.
    Released {
        at: u64,
    },
    Failed(String),
}

/// The outcome of a rush in one worker.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Rushed {
    /// Waits in nanoseconds, each with the number of its occurrences.
    pub(crate) waits: Vec<(u64, u64)>,
    /// The number of locks that each task had.
    pub(crate) laps: Vec<u64>,
    /// The time when the last task had its last lock.
    pub(crate) ended: u64,
    pub(crate) violations: u64,
    pub(crate) turns: Vec<Turn>,
}

// Not derived, since the URL may have a password.
impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("key", &self.key)
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}

/// One end of the connection between a bench and a worker.
pub(crate) struct Link {
    lines: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Link {
    pub(crate) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(reader);
        Self {
            lines: BufReader::new(reader).lines(),
            writer: Box::new(writer),
        }
    }

    /// Creates both ends of a connection within this process.
    pub(crate) fn pair() -> [Self; 2] {
        let ends = tokio::io::duplex(64 * 1024);
        let link = |end: (ReadHalf<_>, WriteHalf<_>)| Self::new(end.0, end.1);
        [tokio::io::split(ends.0), tokio::io::split(ends.1)].map(link)
    }

    pub(crate) async fn send(&mut self, message: &impl Serialize) -> Result<(), Problem> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.writer.write_all(&line).await?;
        self.writer.flush().await?;
        Ok(())
    }

    /// Receives the next message; `None` if the other end is closed.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Problem> {
        match self.lines.next_line().await? {
            Some(line) => Ok(Some(serde_json::from_str(&line)?)),
            None => Ok(None),
        }
    }
}
