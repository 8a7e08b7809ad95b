//! What a bench and its workers say to each other, a line of JSON each.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines, ReadHalf, WriteHalf,
};

use crate::bench::referee::Turn;
use crate::problem::Problem;

/// What a worker is told. It ends when nothing more comes.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Order {
    /// To connect, and to answer [`Answer::Ready`].
    Prepare(Job),
    /// To have all tasks take and release the key from one moment to another.
    Rush { begins: u64, ends: u64 },
    /// To take the key, and to answer [`Answer::Has`].
    Ask,
    /// To give it back.
    Release,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct Job {
    pub(crate) url: String,
    pub(crate) hand_off: Option<Duration>,
    pub(crate) key: String,
    pub(crate) tasks: u32,
    /// Whether other processes want the key, too.
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
    /// When it was about to be released.
    Released {
        at: u64,
    },
    Failed(String),
}

/// What came of a rush.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Rushed {
    /// In nanoseconds, each with how often it was noted.
    pub(crate) waits: Vec<(u64, u64)>,
    /// How many locks each task had.
    pub(crate) laps: Vec<u64>,
    /// When the last task had its last lock.
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

/// One end of the way between a bench and a worker.
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

    /// Both ends of one within this process.
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

    /// `None` when the other end has gone.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Problem> {
        match self.lines.next_line().await? {
            Some(line) => Ok(Some(serde_json::from_str(&line)?)),
            None => Ok(None),
        }
    }
}
