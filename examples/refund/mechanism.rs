//! The mechanisms that keep refunds apart.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The way in which the peers exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mechanism {
    /// No exclusion
    None,
    /// Locks on the trade and on the bank, taken without waiting: a refund whose locks are taken is
    /// left for the compensation run
    Lock,
    /// A queue for each bank: refunds wait and are paid one by one, in the order of their arrival
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
