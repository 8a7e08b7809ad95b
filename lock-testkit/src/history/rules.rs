//! The rules for the check of a history.

use std::time::Duration;

use lock_core::{Capabilities, TokenOrder};

/// The promises against which a history is checked.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{DistributedLock, MemoryLock};
/// use lock_testkit::history::Rules;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut rules = Rules::new(&MemoryLock::new().capabilities());
/// rules.recovery = Duration::from_secs(5);
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rules {
    /// The extent to which tokens have to grow.
    pub tokens: TokenOrder,
    /// The time after which a claim has certainly taken its place, and a disturbed process has
    /// recovered. `None`: claims need not be granted in the order of arrival. Default: 1.5 seconds
    /// for fair backends, otherwise `None`.
    pub settled_after: Option<Duration>,
    /// Maximum time, besides a third of the ttl, until a holder notices that its hold was removed.
    /// It covers a round trip. Default: 500 ms, which is generous.
    pub round_trip: Duration,
    /// True if exclusive holds may be handed on within a process, see
    /// [`HandOff`](lock_core::HandOff). A hold that was removed from the store may then be granted
    /// until its process notices. Its token may be lower than tokens that the store granted after
    /// the removal. Default: false.
    pub handed_on: bool,
    /// Maximum time, besides three times the ttl, for which a key with waiters has no living
    /// holder. Faults and stalls of the machine come on top. Default: 2 seconds.
    pub recovery: Duration,
}

impl Rules {
    /// Creates the rules for a backend with these capabilities.
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
