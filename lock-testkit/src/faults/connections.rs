//! The faults that a test sets on chosen connections.

use std::time::Duration;

use super::board::Board;
use super::connection::End;
use super::rules::{After, BOTH_WAYS, Fault, Way, Which};

/// Chosen connections through a [`Proxy`](super::Proxy), with the direction of the affected bytes.
///
/// Faults affect both directions, unless [`to_server`](Self::to_server) or
/// [`to_client`](Self::to_client) restricts them.
///
/// A fault is in force when the call returns, also for connections that are opened later. It stays
/// until another fault is set for the same choice, or for [`all`](super::Proxy::all). If choices
/// overlap, the latest fault counts.
///
/// ```no_run
/// use lock_testkit::faults::Proxy;
///
/// let proxy = Proxy::before(6379);
/// let replies = proxy.all().to_client();
/// replies.hold();
/// println!("{} bytes of replies so far", replies.bytes());
/// replies.pass();
/// ```
#[derive(Clone, Debug)]
#[must_use = "say what happens to them"]
pub struct Connections<'a> {
    board: &'a Board,
    which: Which,
    ways: &'static [Way],
}

impl<'a> Connections<'a> {
    pub(super) fn new(board: &'a Board, which: Which) -> Self {
        Self {
            board,
            which,
            ways: BOTH_WAYS,
        }
    }

    /// Restricts the choice to bytes that travel to the server.
    pub fn to_server(mut self) -> Self {
        self.ways = &[Way::ToServer];
        self
    }

    /// Restricts the choice to bytes that travel to the client.
    pub fn to_client(mut self) -> Self {
        self.ways = &[Way::ToClient];
        self
    }

    /// Forwards all bytes at once, as the proxy does at first.
    ///
    /// [Held](Self::hold) bytes arrive now, in order. A connection that has [lost](Self::lose)
    /// bytes is reset, since the rest of its stream makes no sense to the receiver.
    pub fn pass(&self) {
        self.set(Fault::Pass);
    }

    /// Forwards all bytes `delay` later, in order.
    ///
    /// Requests that overlap are delayed together, not one after the other.
    pub fn delay(&self, delay: Duration) {
        self.set(Fault::Delay(delay));
    }

    /// Holds all bytes back, and does not pass on when an end closes the connection.
    ///
    /// New connections are accepted and stall. Held bytes wait for [`pass`](Self::pass).
    pub fn hold(&self) {
        self.set(Fault::Hold);
    }

    /// Drops all bytes, including held bytes; otherwise silent like [`hold`](Self::hold).
    pub fn lose(&self) {
        self.set(Fault::Lose);
    }

    /// Drops the next reply on one of the connections, and then cuts that connection, once.
    ///
    /// The request is forwarded. All other connections are left alone.
    pub fn lose_next_reply_and_cut(&self) {
        self.lose_next(After::Cut);
    }

    /// Drops the next reply on one of the connections, and then all its bytes, once.
    ///
    /// The request is forwarded. All other connections are left alone.
    pub fn lose_next_reply_and_go_silent(&self) {
        self.lose_next(After::Silence);
    }

    /// Forwards `bytes` bytes on one of the connections and then cuts that connection, once.
    pub fn cut_after(&self, bytes: usize) {
        self.set(Fault::CutAfter(bytes));
    }

    /// Closes the open connections at both ends and in order (FIN).
    pub fn cut(&self) {
        self.board.end(&self.which, End::Cut);
    }

    /// Resets the open connections at both ends (RST), like a host that does not know them any
    /// more.
    pub fn reset(&self) {
        self.board.end(&self.which, End::Reset);
    }

    /// Ends the chosen directions of the open connections (FIN), like an end that has sent
    /// everything.
    ///
    /// After [`to_server`](Self::to_server) the server sees the end of its requests and can still
    /// answer. After [`to_client`](Self::to_client) the client sees the end of the replies and can
    /// still send requests, whose replies are not forwarded.
    pub fn half_close(&self) {
        self.board.end_ways(&self.which, self.ways);
    }

    /// Returns the number of connections so far, closed connections included.
    pub fn count(&self) -> usize {
        self.board.chosen(&self.which).len()
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        let connections = self.board.chosen(&self.which);
        connections
            .iter()
            .filter(|connection| connection.is_open())
            .count()
    }

    /// Returns the number of bytes sent on the connections so far, whether or not they arrived.
    pub fn bytes(&self) -> usize {
        let connections = self.board.chosen(&self.which);
        let bytes = |way: &Way| -> usize { connections.iter().map(|c| c.bytes(*way)).sum() };
        self.ways.iter().map(bytes).sum()
    }

    fn lose_next(&self, after: After) {
        self.board
            .set(&self.which, &[Way::ToClient], Fault::LoseNext(after));
    }

    fn set(&self, fault: Fault) {
        self.board.set(&self.which, self.ways, fault);
    }
}
