//! What a history is held to.

use std::time::Duration;

use lock_core::{Capabilities, TokenOrder};

/// The promises that a history is checked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rules {
    /// How far tokens have to grow.
    pub tokens: TokenOrder,
    /// After which time a claim has certainly taken its place, and whoever was troubled has recovered, where
    /// claims are granted in the order of their arrival. `None`: they need not be. Default: 1.5 seconds for fair
    /// backends.
    pub settled_after: Option<Duration>,
    /// How long a holder whose lock was removed on the store may go on saying that it is held, besides a
    /// third of its ttl: a round trip. Default: 500 ms, which is generous.
    pub round_trip: Duration,
    /// Whether exclusive holds may be handed on inside of a process, see [`HandOff`](lock_core::HandOff): then one that
    /// was removed on the store may still be granted until its process learns of that, with a lower token than what
    /// the store granted meanwhile. Default: no.
    pub handed_on: bool,
    /// How long a key that somebody waits for may stay free, or blocked by a holder that is gone, besides
    /// three times the ttl. Default: 2 seconds. Faults and stalls of the machine come on top.
    pub recovery: Duration,
}

impl Rules {
    /// What such a backend promises.
    pub fn new(capabilities: &Capabilities) -> Self {
        Self {
            tokens: capabilities.tokens,
            settled_after: capabilities.fair.then_some(Duration::from_millis(1500)),
            round_trip: Duration::from_millis(500),
            handed_on: false,
            recovery: Duration::from_secs(2),
        }
    }
}
