//! What a test says of chosen connections.

use std::time::Duration;

use super::board::Board;
use super::connection::End;
use super::rules::{After, BOTH_WAYS, Fault, Way, Which};

/// Chosen connections through a [`Proxy`](super::Proxy), and which way their bytes go: both, until
/// [`to_server`](Self::to_server) or [`to_client`](Self::to_client) says otherwise.
///
/// What is said is in force when the call returns, also for connections that are opened later, and
/// stays so until something else is said of the same choice, or of [`all`](super::Proxy::all). Where
/// choices overlap, the latest word counts.
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

    /// Only what travels to the server.
    pub fn to_server(mut self) -> Self {
        self.ways = &[Way::ToServer];
        self
    }

    /// Only what travels to the client.
    pub fn to_client(mut self) -> Self {
        self.ways = &[Way::ToClient];
        self
    }

    /// Forwards everything at once, as it was in the beginning. What was [held](Self::hold) arrives
    /// now, in order; a connection on which something was [lost](Self::lose) is reset, since what
    /// comes next would make no sense to the other end.
    pub fn pass(&self) {
        self.set(Fault::Pass);
    }

    /// Forwards everything `delay` later, in order. Requests that overlap are delayed together, not
    /// one after the other.
    pub fn delay(&self, delay: Duration) {
        self.set(Fault::Delay(delay));
    }

    /// Goes silent: nothing arrives and nothing is closed, also what either end closes. New
    /// connections are accepted and stall. What is sent meanwhile waits for [`pass`](Self::pass).
    pub fn hold(&self) {
        self.set(Fault::Hold);
    }

    /// Goes silent like [`hold`](Self::hold), but what is sent meanwhile, or is held already, never
    /// arrives.
    pub fn lose(&self) {
        self.set(Fault::Lose);
    }

    /// Once: forwards the request, loses the server's next bytes to one of these connections, and
    /// then cuts that connection. All others, and new ones, are left alone.
    pub fn lose_next_reply_and_cut(&self) {
        self.lose_next(After::Cut);
    }

    /// Once: forwards the request, loses the server's next bytes to one of these connections, and
    /// from then on everything that travels on that connection.
    pub fn lose_next_reply_and_go_silent(&self) {
        self.lose_next(After::Silence);
    }

    /// Once: forwards `bytes` bytes on one of these connections and then cuts that connection.
    pub fn cut_after(&self, bytes: usize) {
        self.set(Fault::CutAfter(bytes));
    }

    /// Closes those that are open now, at both ends and in order (FIN).
    pub fn cut(&self) {
        self.board.end(&self.which, End::Cut);
    }

    /// Closes those that are open now, at both ends and as by a host that knows nothing of them any
    /// more (RST).
    pub fn reset(&self) {
        self.board.end(&self.which, End::Reset);
    }

    /// Closes one way of those that are open now (FIN), as an end does that has nothing more to say: after
    /// [`to_server`](Self::to_server) the server sees an end of its requests and can still answer, after
    /// [`to_client`](Self::to_client) the client sees an end and can still ask, which nobody reads any more.
    pub fn half_close(&self) {
        self.board.end_ways(&self.which, self.ways);
    }

    /// How many there have been so far.
    pub fn count(&self) -> usize {
        self.board.chosen(&self.which).len()
    }

    /// How many of them are open.
    pub fn open(&self) -> usize {
        let connections = self.board.chosen(&self.which);
        connections
            .iter()
            .filter(|connection| connection.is_open())
            .count()
    }

    /// How many bytes were sent on them so far, whether or not they arrived.
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
