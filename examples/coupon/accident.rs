//! The places where an accident can happen, and the kinds of accidents.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A place in a claim where an accident can happen. The strategies mark their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Point {
    /// The lock is taken and nothing else is done yet.
    AfterSetNx,
    /// The buyer was found entitled to a coupon; nothing is written yet.
    BeforeWriting,
    /// The work is done and the lock is about to be deleted.
    BeforeDel,
}

/// A kind of accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accident {
    /// The business code fails.
    Exception,
    /// The instance stops dead.
    Crash,
    /// The buyer's claim pauses.
    Pause(Pause),
}

/// The end of a pause: an event, so that the accident does not depend on luck, or a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) until: Until,
    pub(crate) at_most: Duration,
}

/// The event that ends a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Another buyer has ordered: two claims were inside the lock at once.
    AnotherOrder,
    /// Another buyer has met the next accident of the script: the next claim is inside the lock.
    NextAccident,
    /// The first impatient user has ordered twice. For the two requests of this user: both have
    /// looked for an order and found none.
    OrderedTwice,
}

/// The part of an accident that the instance itself acts out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mishap {
    /// No accident, or a pause that is over.
    None,
    /// The business code fails.
    Exception,
    /// The instance stops dead.
    Crash,
}
