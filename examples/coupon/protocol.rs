//! What the instances ask of the headquarters, and what it answers: within one process by a call,
//! between processes as a line of JSON.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::accident::{Mishap, Point};
use crate::commands::{Command, Outcome};
use crate::problem::Problem;
use crate::shop::User;
use crate::strategy::Strategy;
use crate::submissions::Submission;

/// How an instance reaches the headquarters.
#[async_trait]
pub(crate) trait Transport: Send + Sync {
    async fn exchange(&self, call: Call) -> Result<Reply, Problem>;
}

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
    Answered {
        submission: usize,
    },
    /// Does anything go wrong here? Answered when a pause is over.
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
    /// The lock store.
    pub(crate) url: String,
    /// The key of the lock, new for every run.
    pub(crate) key: String,
    /// The ttl of a polylock.
    pub(crate) ttl: Duration,
    pub(crate) submissions: Vec<Submission>,
}
