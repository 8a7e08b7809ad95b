//! What the peers ask of the headquarters, and what it answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::refund::mechanism::Mechanism;
use crate::refund::requests::{Arrival, Refund};
use crate::stage::LockStore;

/// A call of a peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// What is there to do for this peer?
    Apply { peer: u32 },
    /// Prepared; answered when every peer is.
    Ready,
    /// A request has reached its peer.
    Arrived { from: Peer, arrival: usize },
    /// Whoever asked has an answer.
    LastReply {
        from: Peer,
        arrival: usize,
        answer: Answer,
    },
    /// The peer takes up a refund that was left, and is answered whether it may.
    TakeUp { from: Peer, refund: usize },
    /// The peer has done with it what it could.
    Leave { from: Peer, refund: usize },
    /// Which refunds are left for the compensation run?
    Backlog,
    /// A step of the work on a refund.
    Work {
        from: Peer,
        refund: Refund,
        fence: Option<Fence>,
        step: Step,
    },
}

/// Who calls: what a peer sent before it was killed may come after it was started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) number: u32,
    /// How often it was killed before.
    pub(crate) life: u32,
}

/// A step on the books of the refund system, or a call of the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Reads the trade.
    Read,
    /// Notes that the bank is going to be called, so that whoever comes after a crash asks the bank.
    Begin,
    /// Has the bank pay. It pays whatever it is told to, as often as it is told.
    Pay,
    /// Asks the bank whether it has paid this refund.
    WasPaid,
    /// Notes a payment: so much of the trade is refunded now.
    Finish { refunded: u32 },
    /// Notes that nothing was paid after all.
    Abandon,
    /// Notes that nothing is to be paid, since the price is.
    Decline,
}

/// The fencing tokens of the locks that protect a step: of the trade, and of the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fence {
    pub(crate) trade: u64,
    pub(crate) bank: u64,
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Job(Job),
    Done,
    Yes(bool),
    /// `None` when every refund is finished.
    Backlog(Option<Vec<Refund>>),
    Trade(Trade),
    /// A later holder of the lock has been here: the step was refused.
    Outdated,
    /// The peer stops dead here.
    Crash,
}

/// What whoever asked for a refund is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Paid,
    /// The rest of the price is less.
    Declined,
    /// Somebody else has seen to it.
    AlreadyDone,
    /// It will be done: it stands in line.
    Accepted,
    /// It will be done: the compensation run will see to it.
    Left,
}

/// A trade as the books have it, read for one refund.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Trade {
    pub(crate) refunded: u32,
    /// A refund for which the bank was perhaps called.
    pub(crate) begun: Option<Refund>,
    /// Whether the refund it was read for needs nothing more.
    pub(crate) is_finished: bool,
    /// How long the bank is to be left alone.
    pub(crate) pause: Duration,
}

/// What a peer has to do, and by what means.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) life: u32,
    pub(crate) mechanism: Mechanism,
    pub(crate) store: LockStore,
    /// What the keys of the run begin with.
    pub(crate) keys: String,
    pub(crate) ttl: Duration,
    pub(crate) arrivals: Vec<Arrival>,
}
