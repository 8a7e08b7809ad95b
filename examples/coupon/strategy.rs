//! The strategies: their names, and their flaws in a few words.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The way in which the service keeps buyers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Strategy {
    /// No lock
    None,
    /// A mutex in each instance
    LocalMutex,
    /// SET NX, the work, DEL
    SetnxNoExpiry,
    /// The DEL also after an error
    SetnxFinally,
    /// An EXPIRE right after the SET NX
    SetnxThenExpire,
    /// SET NX with an expiry, the same value for all buyers
    FixedOwner,
    /// A value per buyer, compared before the DEL
    CheckThenDelete,
    /// Compared and deleted in one step, but never renewed
    ShortExpiry,
    /// No lock: decrement the stock only while it is positive
    Optimistic,
    /// The coupon's lock and the user's, each when it is needed
    TwoLocks,
    /// A function that takes the lock which its caller holds
    NestedLock,
    /// The lock of this crate
    Polylock,
    /// The coupon and the user, locked together
    MultiKey,
    /// The function, and its caller, with one owner
    Reentrant,
}

impl Strategy {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LocalMutex => "local-mutex",
            Self::SetnxNoExpiry => "setnx-no-expiry",
            Self::SetnxFinally => "setnx-finally",
            Self::SetnxThenExpire => "setnx-then-expire",
            Self::FixedOwner => "fixed-owner",
            Self::CheckThenDelete => "check-then-delete",
            Self::ShortExpiry => "short-expiry",
            Self::Optimistic => "optimistic",
            Self::TwoLocks => "two-locks",
            Self::NestedLock => "nested-lock",
            Self::Polylock => "polylock",
            Self::MultiKey => "multi-key",
            Self::Reentrant => "reentrant",
        }
    }

    /// Returns the accident in a few words, for the last column of the table.
    pub(crate) fn accident(self) -> &'static str {
        match self {
            Self::None => "a stale stock was written back",
            Self::LocalMutex => "each instance saw only its own mutex",
            Self::SetnxNoExpiry => "an exception skipped the DEL",
            Self::SetnxFinally => "a crash skipped the DEL",
            Self::SetnxThenExpire => "a crash skipped the EXPIRE",
            Self::FixedOwner => "a late DEL freed another's lock",
            Self::CheckThenDelete => "the lock changed hands before the DEL",
            Self::ShortExpiry => "the work took longer than the lock",
            Self::Optimistic => "one user was served twice",
            Self::TwoLocks => "two buyers waited for each other's lock",
            Self::NestedLock => "each sale waited for its own lock",
            Self::Polylock | Self::MultiKey | Self::Reentrant => "exception, crash or long work",
        }
    }

    /// Returns true if the strategy locks by commands on a key.
    pub(crate) fn uses_commands(self) -> bool {
        match self {
            Self::SetnxNoExpiry
            | Self::SetnxFinally
            | Self::SetnxThenExpire
            | Self::FixedOwner
            | Self::CheckThenDelete
            | Self::ShortExpiry => true,
            Self::None
            | Self::LocalMutex
            | Self::Optimistic
            | Self::TwoLocks
            | Self::NestedLock
            | Self::Polylock
            | Self::MultiKey
            | Self::Reentrant => false,
        }
    }

    /// Returns true if the strategy locks by a polylock.
    pub(crate) fn uses_polylock(self) -> bool {
        self.is_correct() || matches!(self, Self::TwoLocks | Self::NestedLock)
    }

    /// Returns true if the strategy has no flaw. It meets all accidents.
    pub(crate) fn is_correct(self) -> bool {
        matches!(self, Self::Polylock | Self::MultiKey | Self::Reentrant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_command_line() {
        for strategy in Strategy::value_variants() {
            assert_eq!(
                Strategy::from_str(strategy.name(), false).as_ref(),
                Ok(strategy)
            );
        }
    }
}
