//! A case of the contract: its name, its needs and its possible outcomes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::bench::Bench;

pub(crate) type Steps = fn(Bench) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// A case of the contract, run by [`run`](crate::run) against a [`Store`](crate::Store).
///
/// ```
/// let first = lock_testkit::cases()[0];
/// assert_eq!(first.to_string(), "exclusion::a_held_lock_is_refused");
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Case {
    /// The part of the contract to which the case belongs.
    pub group: Group,
    /// The name of the case: a sentence about a required behaviour.
    pub name: &'static str,
    /// The needs of the case.
    pub needs: &'static [Need],
    pub(crate) steps: Steps,
}

impl Case {
    /// Returns true if the case has the need `need`.
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
///
/// ```
/// use lock_testkit::{Group, cases};
///
/// assert!(cases().iter().any(|case| case.group == Group::Fencing));
/// assert_eq!(Group::Fencing.to_string(), "fencing");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Group {
    /// Holders exclude each other.
    Exclusion,
    /// Waiters are woken, served in order, and end at their limits.
    Waiting,
    /// Holds are renewed, and guards report a loss in time.
    Lease,
    /// A lost key stays closed for its lock delay.
    Delay,
    /// A key stays closed for its minimum hold.
    Minimum,
    /// Requests of one owner enter its grant.
    Owners,
    /// Several keys are taken together.
    Sets,
    /// One of many candidates leads.
    Elections,
    /// The holders of a key are seen.
    Inspection,
    /// Dropped acquisitions, guards, clients and runtimes leave nothing on the store.
    Cancellation,
    /// Shared holds and permits share a key as far as their modes allow.
    Modes,
    /// Holds change their mode without a gap.
    Upgrades,
    /// Clients that want the same key all the time take turns.
    Turns,
    /// A client that is shut down leaves nothing on the store.
    Shutdown,
    /// Tokens grow from grant to grant.
    Fencing,
    /// Used names and ended waits leave nothing on the store.
    Residue,
    /// Holders in other processes are killed or stopped, or their programs end.
    Processes,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusion => "exclusion",
            Self::Waiting => "waiting",
            Self::Lease => "lease",
            Self::Delay => "delay",
            Self::Minimum => "minimum",
            Self::Owners => "owners",
            Self::Sets => "sets",
            Self::Elections => "elections",
            Self::Inspection => "inspection",
            Self::Cancellation => "cancellation",
            Self::Modes => "modes",
            Self::Upgrades => "upgrades",
            Self::Turns => "turns",
            Self::Shutdown => "shutdown",
            Self::Fencing => "fencing",
            Self::Residue => "residue",
            Self::Processes => "processes",
        })
    }
}

/// A need of a case: a capability that the backend declares, or an operation of the store.
///
/// ```
/// use lock_testkit::{Need, cases};
///
/// let mut without_freeze = cases();
/// without_freeze.retain(|case| !case.needs(Need::Freeze));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// [`Capabilities::shared`](lock_core::Capabilities::shared). Without the capability, the case
    /// asserts that shared locks are refused as unsupported.
    Shared,
    /// [`Capabilities::permits`](lock_core::Capabilities::permits). Without the capability, the
    /// case asserts that permits are refused as unsupported.
    Permits,
    /// [`Capabilities::upgrades`](lock_core::Capabilities::upgrades). Without the capability, the
    /// case asserts that upgradeable locks are refused as unsupported.
    Upgrades,
    /// [`Capabilities::slots`](lock_core::Capabilities::slots).
    Slots,
    /// A [`lock delay`](lock_core::Capabilities::longest_with_delay). Without the capability, the
    /// case asserts that a lock delay is refused as unsupported.
    LockDelay,
    /// A [minimum hold](lock_core::Capabilities::longest_min_hold). Without the capability, the
    /// case asserts that a minimum hold is refused as unsupported.
    MinHold,
    /// [`Capabilities::inspect`](lock_core::Capabilities::inspect). Without the capability, the
    /// case asserts that an inspection is refused as unsupported.
    Inspect,
    /// [`DistributedLock::shutdown`](lock_core::DistributedLock::shutdown). A backend without a
    /// shutdown has to refuse it as unsupported.
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
    /// Writes the reason for a skip of a case with this need.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "the backend declares no shared locks, and refuses them",
            Self::Permits => "the backend declares no permits, and refuses them",
            Self::Upgrades => "the backend declares no upgrades, and refuses upgradeable locks",
            Self::Slots => "the backend does not declare that permits have slots",
            Self::LockDelay => "the backend declares no lock delay, and refuses one",
            Self::MinHold => "the backend declares no minimum hold, and refuses one",
            Self::Inspect => "the backend does not tell who holds a key, and refuses that",
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

/// The outcome of a case that did not fail.
///
/// ```
/// use lock_testkit::{Need, Outcome, Summary, cases};
///
/// let mut summary = Summary::new();
/// summary.add(cases()[0], Outcome::Skipped(Need::Freeze));
/// assert_eq!(summary.skipped().len(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The case ran, and all of its assertions hold.
    Proved,
    /// The backend does not declare the capability and, as it has to, refuses its use.
    Unsupported(Need),
    /// The case did not run: the backend does not promise the need, or the store lacks the
    /// operation.
    Skipped(Need),
}
