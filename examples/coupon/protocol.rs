//! What the instances ask of the headquarters, and what it answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::coupon::accident::{Mishap, Point};
use crate::coupon::commands::{Command, Outcome};
use crate::coupon::shop::User;
use crate::coupon::strategy::Strategy;
use crate::coupon::submissions::Submission;
use crate::stage::LockStore;

/// A call of an instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// What is there to do for this instance?
    Apply {
        instance: u32,
    },
    /// Prepared; answered when every instance is.
    Ready,
    /// This submission has its answer.
    LastReply {
        submission: usize,
    },
    /// Does anything go wrong here? LastReply when a pause is over.
    ComeBy {
        point: Point,
        user: User,
    },
    ReadStock,
    WriteStock {
        stock: u32,
    },
    DecrementIfPositive,
    HasOrder {
        user: User,
    },
    WriteOrder {
        user: User,
    },
    /// A command on the headquarters' own keys.
    Command(Command),
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Job(Job),
    Done,
    Mishap(Mishap),
    Stock(u32),
    Yes(bool),
    Command(Outcome),
}

/// What an instance has to do, and by what means.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) strategy: Strategy,
    pub(crate) store: LockStore,
    /// The key of the lock, new for every run.
    pub(crate) key: String,
    /// The ttl of a polylock.
    pub(crate) ttl: Duration,
    pub(crate) submissions: Vec<Submission>,
}
