//! One case of the contract: its name, what it needs, and how it can end.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::bench::Bench;

pub(crate) type Steps = fn(Bench) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// One case of the contract, run by [`run`](crate::run) against a [`Store`](crate::Store).
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Case {
    /// Which part of the contract it belongs to.
    pub group: Group,
    /// Its name, a sentence about what has to be true.
    pub name: &'static str,
    /// What it cannot do without.
    pub needs: &'static [Need],
    pub(crate) steps: Steps,
}

impl Case {
    /// Whether the case cannot do without `need`.
    ///
    /// ```
    /// use lock_testkit::{Need, cases};
    ///
    /// assert!(cases().iter().any(|case| case.needs(Need::Freeze)));
    /// ```
    pub fn needs(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.group, self.name)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({self}, needs {:?})", self.needs)
    }
}

/// A part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Group {
    /// Nobody holds what someone else holds.
    Exclusion,
    /// Waiters are woken, served and let go.
    Waiting,
    /// Holds are renewed, and their loss is told in time.
    Lease,
    /// What is lost stays closed for its lock delay.
    Delay,
    /// Whatever is dropped leaves nothing behind.
    Cancellation,
    /// Shared holds and permits.
    Modes,
    /// Clients that want the same key all the time take turns.
    Turns,
    /// A client that is shut down leaves nothing behind.
    Shutdown,
    /// Tokens grow.
    Fencing,
    /// Nothing piles up on the store.
    Residue,
    /// Holders in other processes are killed, stopped, or end in the middle of it.
    Processes,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusion => "exclusion",
            Self::Waiting => "waiting",
            Self::Lease => "lease",
            Self::Delay => "delay",
            Self::Cancellation => "cancellation",
            Self::Modes => "modes",
            Self::Turns => "turns",
            Self::Shutdown => "shutdown",
            Self::Fencing => "fencing",
            Self::Residue => "residue",
            Self::Processes => "processes",
        })
    }
}

/// What a case cannot do without: a declared capability, or something the store can be made to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// [`Capabilities::shared`](lock_core::Capabilities::shared). Without it the case asserts that
    /// shared locks are refused as unsupported.
    Shared,
    /// [`Capabilities::permits`](lock_core::Capabilities::permits). Without it the case asserts
    /// that permits are refused as unsupported.
    Permits,
    /// A [`lock delay`](lock_core::Capabilities::longest_with_delay). Without it the case asserts that one is
    /// refused as unsupported.
    LockDelay,
    /// [`DistributedLock::shutdown`](lock_core::DistributedLock::shutdown). A backend without it
    /// answers that it is unsupported.
    Shutdown,
    /// [`Capabilities::fair`](lock_core::Capabilities::fair).
    Fair,
    /// [`Capabilities::push`](lock_core::Capabilities::push).
    Push,
    /// [`Store::takes_turns`](crate::Store::takes_turns).
    Turns,
    /// [`Store::remove`](crate::Store::remove).
    Remove,
    /// [`Store::crash`](crate::Store::crash).
    Crash,
    /// [`Store::freeze`](crate::Store::freeze).
    Freeze,
    /// [`Store::switch_over`](crate::Store::switch_over).
    Switchover,
    /// [`Store::address`](crate::Store::address).
    Processes,
}

impl fmt::Display for Need {
    /// Writes why a case that needs it was skipped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "the backend declares no shared locks, and refuses them",
            Self::Permits => "the backend declares no permits, and refuses them",
            Self::LockDelay => "the backend declares no lock delay, and refuses one",
            Self::Shutdown => "the backend cannot be shut down, and refuses that",
            Self::Fair => "the backend does not declare that it is fair",
            Self::Push => "the backend does not declare that it pushes",
            Self::Turns => "the store does not promise turns (Store::takes_turns)",
            Self::Remove => "the store under test removes no hold (Store::remove)",
            Self::Crash => "the store under test crashes no holder (Store::crash)",
            Self::Freeze => "the store under test cannot be frozen (Store::freeze)",
            Self::Switchover => "the store under test cannot switch over (Store::switch_over)",
            Self::Processes => "no other process can reach the store under test (Store::address)",
        })
    }
}

/// How a case ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All of it was shown.
    Proved,
    /// It is about something that the backend does not declare and, as it has to, refuses.
    Unsupported(Need),
    /// It could not be tried: the backend does not promise it, or the store cannot be made to.
    Skipped(Need),
}
