//! A claim for a coupon: a request of a user at an instance, on its way through a strategy.

use std::sync::Arc;
use std::time::Duration;

use crate::coupon::accident::{Mishap, Point};
use crate::coupon::shop::User;
use crate::coupon::tools::Tools;
use crate::stage::crash::Crash;
use crate::stage::problem::Problem;

/// Number of times that a buyer polls for a lock.
///
/// A limit in time would make the buyers less patient on a slow machine.
const TRIES: u32 = 40;

/// Time between two polls in milliseconds, drawn anew each time.
const PAUSE_BETWEEN_TRIES: std::ops::RangeInclusive<u64> = 10..=30;

/// A claim under way.
pub(crate) struct Claim {
    /// The number of the request, which differs between two requests of one user.
    pub(crate) id: usize,
    pub(crate) user: User,
    pub(crate) tools: Arc<Tools>,
    pub(crate) crash: Crash,
}

/// The answer to a buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Bought,
    SoldOut,
    /// A user may order once, and this user has an order.
    HasOneAlready,
    /// The lock was not granted in time.
    GaveUp,
}

/// The reason why a buyer gets no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The business code failed; only this buyer is affected.
    Business,
    /// The lock was lost during the work, which was stopped.
    LockLost(polylock::Error),
    /// The example itself failed, which ends it.
    Broken(Problem),
}

impl Claim {
    /// Marks a place of a possible accident, and acts it out if the script has one.
    pub(crate) async fn may_go_wrong(&self, point: Point) -> Result<(), Failure> {
        match self.tools.headquarters.come_by(point, self.user).await? {
            Mishap::None => Ok(()),
            Mishap::Exception => Err(Failure::Business),
            Mishap::Crash => self.crash.now().await,
        }
    }

    /// Takes the key by SET NX, polling while it exists; returns true if the key was taken in time.
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
