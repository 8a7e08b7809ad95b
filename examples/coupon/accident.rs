//! Where an accident can happen, and what can happen there.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A place in a claim where something can go wrong. The strategies mark theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Point {
    /// The lock is taken and nothing else is done yet.
    AfterSetNx,
    /// The buyer was found entitled to a coupon; nothing is written yet.
    BeforeWriting,
    /// The work is done and the lock is about to be deleted.
    BeforeDel,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accident {
    /// The business code fails.
    Exception,
    /// The instance stops dead.
    Crash,
    /// The buyer is held up.
    Pause(Pause),
}

/// How long a buyer is held up: until something has happened, so that the accident does not depend
/// on luck, but never longer than `at_most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) until: Until,
    pub(crate) at_most: Duration,
}

/// What a paused buyer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Somebody else has ordered: two were inside at once.
    AnotherOrder,
    /// Somebody else has met the next accident of the script: the next buyer is inside.
    NextAccident,
    /// The first impatient user has ordered twice. Of this user's own two requests: that both have
    /// looked for an order and found none.
    OrderedTwice,
}

/// The part of an accident that the instance itself has to act out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mishap {
    /// Nothing, or it is over.
    None,
    /// The business code fails.
    Exception,
    /// The instance stops dead.
    Crash,
}
