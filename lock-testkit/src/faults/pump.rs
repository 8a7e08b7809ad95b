//! Moves the bytes of a connection according to the rules.

use std::collections::VecDeque;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use super::board::Board;
use super::connection::{Connection, End};
use super::rules::{After, BOTH_WAYS, Fault, Rule, Way, Which};

/// Maximum number of queued pieces; a full queue makes the sender wait.
const QUEUE_MAX: usize = 4096;

/// Carries bytes until both ends have closed, or a rule or the test closes the connection.
pub(super) async fn carry(
    board: &Board,
    connection: &Connection,
    mut client: TcpStream,
    mut server: TcpStream,
) {
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let pumps = async {
            tokio::try_join!(
                Pump::new(board, connection, Way::ToServer, to_server).run(from_client),
                Pump::new(board, connection, Way::ToClient, to_client).run(from_server),
            )
        };
        tokio::select! {
            ended = pumps => ended.err().unwrap_or(End::Cut),
            end = told_to_end(board, connection) => end,
        }
    };
    for stream in [&mut client, &mut server] {
        // Either end may have closed already.
        let _gone = match end {
            End::Cut => stream.shutdown().await,
            End::Reset => stream.set_zero_linger(),
        };
    }
}

async fn told_to_end(board: &Board, connection: &Connection) -> End {
    let mut changes = board.changes();
    loop {
        if let Some(end) = connection.end() {
            return end;
        }
        if changes.changed().await.is_err() {
            return End::Cut;
        }
    }
}

/// One direction of a connection.
struct Pump<'a> {
    board: &'a Board,
    connection: &'a Connection,
    way: Way,
    to: WriteHalf<'a>,
    /// The pieces to forward, with the times of their arrival. An empty piece is the end.
    queue: VecDeque<(Instant, Vec<u8>)>,
    /// True if bytes were dropped, so that the rest of the stream makes no sense.
    lost: bool,
    /// The number of the last rule that cuts after some bytes, and the bytes forwarded under it.
    forwarded: (u64, usize),
}

impl<'a> Pump<'a> {
    fn new(board: &'a Board, connection: &'a Connection, way: Way, to: WriteHalf<'a>) -> Self {
        Self {
            board,
            connection,
            way,
            to,
            queue: VecDeque::new(),
            lost: false,
            forwarded: (0, 0),
        }
    }

    /// Runs until the end of the stream is forwarded, or the connection is to be closed.
    async fn run(mut self, mut from: ReadHalf<'_>) -> Result<(), End> {
        let mut changes = self.board.changes();
        let mut buffer = vec![0; 16 * 1024];
        let mut ended = false;
        loop {
            if self.connection.has_ended(self.way) {
                // The other direction continues.
                return self.to.shutdown().await.map_err(|_| End::Reset);
            }
            let rule = self.board.rule(self.connection, self.way);
            let fault = rule.as_ref().map_or(Fault::Pass, |rule| rule.fault);
            let due = self.due(fault)?;
            // Forward due pieces without the timer, which is a millisecond late.
            if due.is_some_and(|due| due <= Instant::now()) {
                if self.forward(rule.as_ref()).await? {
                    return Ok(());
                }
                continue;
            }
            tokio::select! {
                biased;
                // The board outlives this task, so there is no error.
                _ = changes.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                read = from.read(&mut buffer), if !ended && self.queue.len() < QUEUE_MAX => {
                    let length = read.map_err(|_| End::Reset)?;
                    ended = length == 0;
                    self.came(&buffer[..length])?;
                }
            }
        }
    }

    /// Returns when the next piece is to be forwarded.
    fn due(&mut self, fault: Fault) -> Result<Option<Instant>, End> {
        if fault == Fault::Lose {
            self.lost |= !self.queue.is_empty();
            self.queue.clear();
        } else if self.lost {
            return Err(End::Reset);
        }
        let first = self.queue.front().map(|(came, _)| *came);
        Ok(match fault {
            Fault::Hold | Fault::Lose => None,
            Fault::Delay(delay) => first.map(|came| came + delay),
            Fault::Pass | Fault::LoseNext(_) | Fault::CutAfter(_) => first,
        })
    }

    /// Queues bytes that were read.
    fn came(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.connection.came(self.way, bytes);
        // Look the rule up only now, since it may depend on the bytes that were just read.
        let rule = self.board.rule(self.connection, self.way);
        if let Some(rule) = rule
            && let Fault::LoseNext(after) = rule.fault
            && !bytes.is_empty()
            && self.board.strike_off(&rule)
        {
            if after == After::Cut {
                return Err(End::Cut);
            }
            let this = Which::Nth(self.connection.number);
            self.board.set(&this, BOTH_WAYS, Fault::Lose);
        }
        self.queue.push_back((Instant::now(), bytes.to_vec()));
        Ok(())
    }

    /// Forwards the first piece; returns true if it was the end of the stream.
    async fn forward(&mut self, rule: Option<&Rule>) -> Result<bool, End> {
        let Some((_, mut piece)) = self.queue.pop_front() else {
            return Ok(false);
        };
        if piece.is_empty() {
            self.to.shutdown().await.map_err(|_| End::Reset)?;
            return Ok(true);
        }
        let mut cut = false;
        if let Some(rule) = rule
            && let Fault::CutAfter(limit) = rule.fault
        {
            if self.forwarded.0 != rule.number {
                self.forwarded = (rule.number, 0);
            }
            cut = self.forwarded.1 + piece.len() >= limit && self.board.strike_off(rule);
            if cut {
                piece.truncate(limit - self.forwarded.1);
            }
            self.forwarded.1 += piece.len();
        }
        self.to.write_all(&piece).await.map_err(|_| End::Reset)?;
        if cut { Err(End::Cut) } else { Ok(false) }
    }
}
