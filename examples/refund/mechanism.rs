//! The ways to keep refunds apart.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How the peers keep out of each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mechanism {
    /// Not at all
    None,
    /// Locks on the trade and on the bank that nobody waits for: what is busy is left for the
    /// compensation run
    Lock,
    /// A queue for each bank: refunds stand in line and are paid one by one, in the order in which they
    /// came
    Queue,
}

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lock => "lock",
            Self::Queue => "queue",
        }
    }
}
