//! The calls of the peers to the headquarters, and its replies.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::refund::mechanism::Mechanism;
use crate::refund::requests::{Arrival, Refund};
use crate::stage::LockStore;

/// A call of a peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Asks for the job of this peer.
    Apply { peer: u32 },
    /// The peer is prepared; answered once all peers are.
    Ready,
    /// A request has reached its peer.
    Arrived { from: Peer, arrival: usize },
    /// The caller has its answer.
    LastReply {
        from: Peer,
        arrival: usize,
        answer: Answer,
    },
    /// The peer wants to take up a left refund; the reply says whether it may.
    TakeUp { from: Peer, refund: usize },
    /// The peer ends its work on a refund, finished or not.
    Leave { from: Peer, refund: usize },
    /// Asks for the refunds that are left for the compensation run.
    Backlog,
    /// A step of the work on a refund.
    Work {
        from: Peer,
        refund: Refund,
        fence: Option<Fence>,
        step: Step,
    },
}

/// The caller. A call that a peer sent before it was killed may arrive after its restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) number: u32,
    /// The number of times that the peer was killed before.
    pub(crate) life: u32,
}

/// A step on the books of the refund system, or a call of the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Reads the trade.
    Read,
    /// Notes a payment that is about to begin, so that after a crash the next peer asks the bank.
    Begin,
    /// Makes the bank pay. The bank pays at each call, even twice.
    Pay,
    /// Asks the bank whether it has paid this refund.
    WasPaid,
    /// Notes a payment; `refunded` is the new sum of the trade.
    Finish { refunded: u32 },
    /// Notes that the payment was not made.
    Abandon,
    /// Notes that the refund is not payable, since it exceeds the trade's price.
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
    /// `None` once every refund is finished.
    Backlog(Option<Vec<Refund>>),
    Trade(Trade),
    /// The step was refused because of a later holder of the lock.
    Outdated,
    /// The peer has to crash.
    Crash,
}

/// The answer to the caller that requested a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Paid,
    /// The rest of the price is too small.
    Declined,
    /// Another peer has finished the refund.
    AlreadyDone,
    /// The refund is in the queue and will be paid.
    Accepted,
    /// The compensation run will finish the refund.
    Left,
}

/// A trade in the books, read for one refund.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Trade {
    pub(crate) refunded: u32,
    /// A refund whose payment has begun, with an unknown outcome.
    pub(crate) begun: Option<Refund>,
    /// True if the refund needs no further step.
    pub(crate) is_finished: bool,
    /// Time until the bank accepts the next payment.
    pub(crate) pause: Duration,
}

/// The job of a peer, and the settings for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) life: u32,
    pub(crate) mechanism: Mechanism,
    pub(crate) store: LockStore,
    /// The prefix of the run's keys.
    pub(crate) keys: String,
    pub(crate) ttl: Duration,
    pub(crate) arrivals: Vec<Arrival>,
}
