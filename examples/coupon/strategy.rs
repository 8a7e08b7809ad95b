//! The ten strategies: their names, and what goes wrong with them in a few words.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How the service keeps two buyers from getting in each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Strategy {
    /// Nothing at all
    None,
    /// A mutex in each instance
    LocalMutex,
    /// SET NX, the work, DEL
    SetnxNoExpiry,
    /// The DEL also when the work fails
    SetnxFinally,
    /// An EXPIRE right behind the SET NX
    SetnxThenExpire,
    /// SET NX with an expiry, the same value for everybody
    FixedOwner,
    /// A value of one's own, compared before the DEL
    CheckThenDelete,
    /// Compared and deleted in one step, but never renewed
    ShortExpiry,
    /// No lock: decrement the stock only while it is positive
    Optimistic,
    /// The lock of this crate
    Polylock,
}

impl Strategy {
    /// The name, as it is given on the command line.
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
            Self::Polylock => "polylock",
        }
    }

    /// What happens in it, for the last column of the table.
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
            Self::Polylock => "exception, crash or long work",
        }
    }

    /// Whether it locks by commands on a key.
    pub(crate) fn uses_commands(self) -> bool {
        match self {
            Self::SetnxNoExpiry
            | Self::SetnxFinally
            | Self::SetnxThenExpire
            | Self::FixedOwner
            | Self::CheckThenDelete
            | Self::ShortExpiry => true,
            Self::None | Self::LocalMutex | Self::Optimistic | Self::Polylock => false,
        }
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
