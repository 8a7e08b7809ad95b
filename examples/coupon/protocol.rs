//! The calls of the instances to the headquarters, and its replies.

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
    /// Asks for the job of this instance.
    Apply {
        instance: u32,
    },
    /// The instance is prepared; answered once all instances are.
    Ready,
    /// This submission has its answer.
    LastReply {
        submission: usize,
    },
    /// Asks for an accident at this point; answered when a pause is over.
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
    /// A command on the keys of the headquarters.
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

/// The job of an instance, and the settings for it.
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
