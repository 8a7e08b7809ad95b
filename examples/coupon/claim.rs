//! One claim for a coupon: a request of a user at an instance, on its way through a strategy.

use std::sync::Arc;
use std::time::Duration;

use crate::coupon::accident::{Mishap, Point};
use crate::coupon::shop::User;
use crate::coupon::tools::Tools;
use crate::stage::crash::Crash;
use crate::stage::problem::Problem;

/// How often a buyer tries to get a lock that has to be polled. Counted in tries and not in time,
/// so that a slow machine does not make the buyers less patient.
const TRIES: u32 = 40;

/// How many milliseconds lie between two tries, drawn anew each time.
const PAUSE_BETWEEN_TRIES: std::ops::RangeInclusive<u64> = 10..=30;

/// A claim under way.
pub(crate) struct Claim {
    pub(crate) user: User,
    pub(crate) tools: Arc<Tools>,
    pub(crate) crash: Crash,
}

/// What a buyer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Bought,
    SoldOut,
    /// One order a user, and this one has one.
    HasOneAlready,
    /// The lock could not be had in time.
    GaveUp,
}

/// Why a buyer gets no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The business code failed, which concerns this buyer alone.
    Business,
    /// The lock was lost in the middle of the work, which was stopped.
    LockLost(polylock::Error),
    /// The machinery failed, which ends the example.
    Broken(Problem),
}

impl Claim {
    /// Marks a place where the script may have an accident in store, and acts it out.
    pub(crate) async fn may_go_wrong(&self, point: Point) -> Result<(), Failure> {
        match self.tools.headquarters.come_by(point, self.user).await? {
            Mishap::None => Ok(()),
            Mishap::Exception => Err(Failure::Business),
            Mishap::Crash => self.crash.now().await,
        }
    }

    /// Takes the key by SET NX, trying again while somebody else has it; returns whether it was
    /// got in time.
    pub(crate) async fn take_key(
        &self,
        value: &str,
        expiry: Option<Duration>,
    ) -> Result<bool, Failure> {
        for _ in 0..TRIES {
            let Tools { commands, key, .. } = &*self.tools;
            if commands.set_nx(key, value, expiry).await? {
                return Ok(true);
            }
            let pause = Duration::from_millis(fastrand::u64(PAUSE_BETWEEN_TRIES));
            tokio::time::sleep(pause).await;
        }
        Ok(false)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Broken(problem)
    }
}

impl From<polylock::Error> for Failure {
    fn from(error: polylock::Error) -> Self {
        if error.kind() == polylock::ErrorKind::Lost {
            Self::LockLost(error)
        } else {
            Self::Broken(error.into())
        }
    }
}
