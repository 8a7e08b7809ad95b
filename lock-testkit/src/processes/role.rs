//! The roles of a child.

/// The behaviour of a [`Child`](super::Child) after it has taken its lock.
///
/// The first message of every child is its token. At its end a child releases its lock, unless its
/// role says otherwise. It ends at once when its parent is gone.
///
/// ```
/// use lock_testkit::processes::{Ending, Flavor, Role};
///
/// let role = Role::End(Flavor::CurrentThread, Ending::RuntimeWithTask);
/// assert_ne!(role, Role::Hold);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Holds the lock until the child is killed. Until the lock is free, the child is a waiter.
    Hold,
    /// Checks its guard all the time, until the process was stopped for longer than the ttl. Then
    /// it sends the answer of its first check, whether its first poll reports the loss, and whether
    /// no time remains. After a nudge it sends its token, as a late write would, and the result of
    /// its release, `Released` or `AlreadyLost`.
    Watch,
    /// Leads in the election of the name of its key, again after the end of a term. At the end of
    /// a term it sends `over` and the number of polls of its work after it had stood still for longer
    /// than the ttl. Its token is that of the term, also of each later term.
    Lead,
    /// Sends its wall clock in seconds since 1970 and whether the lock is held, after each nudge.
    /// For example: `1795212000 true`.
    Tell,
    /// Ends without unwinding, like a program that is built with `panic = "abort"`.
    Abort,
    /// Ends a runtime or the program while the guard is held, or just after it was dropped.
    End(Flavor, Ending),
    /// Releases the lock and takes other names once each, with one client while another client
    /// waits. It does so for ten seconds, and then for this number of further names. It sends its
    /// memory in kilobytes after the ten seconds, and after each quarter of the further names.
    UseNames(usize),
}

/// The kind of runtime that [ends](Role::End).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// A current-thread runtime, which its own thread ends.
    CurrentThread,
    /// A runtime with several workers.
    MultiThread,
}

/// The way in which a runtime or a program [ends](Role::End).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program drops the guard, sends `returns`, and returns from its main function.
    MainAfterDrop,
    /// The program sends `returns` and returns from main while the guard is held, as in a static.
    MainWhileHeld,
    /// The runtime is dropped while one of its tasks has the guard. The child sends `ended` and
    /// lives on until it is nudged, as with all variants below.
    RuntimeWithTask,
    /// The guard is dropped, and then the runtime shuts down in the background.
    ShutdownBackground,
    /// The runtime shuts down with a timeout while one of its tasks has the guard.
    ShutdownTimeout,
    /// The guard is dropped after its runtime.
    DropAfterRuntime,
}

impl Flavor {
    /// All kinds of runtime.
    pub const ALL: [Self; 2] = [Self::CurrentThread, Self::MultiThread];
}

impl Ending {
    /// All endings.
    pub const ALL: [Self; 6] = [
        Self::MainAfterDrop,
        Self::MainWhileHeld,
        Self::RuntimeWithTask,
        Self::ShutdownBackground,
        Self::ShutdownTimeout,
        Self::DropAfterRuntime,
    ];
}

impl Role {
    /// Returns the role as a text that [`from_words`](Self::from_words) understands.
    pub(super) fn to_words(self) -> String {
        match self {
            Self::Hold => "hold".to_owned(),
            Self::Watch => "watch".to_owned(),
            Self::Lead => "lead".to_owned(),
            Self::Tell => "tell".to_owned(),
            Self::Abort => "abort".to_owned(),
            Self::End(flavor, ending) => format!("end {flavor:?} {ending:?}"),
            Self::UseNames(count) => format!("use {count}"),
        }
    }

    pub(super) fn from_words(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["hold"] => Some(Self::Hold),
            ["watch"] => Some(Self::Watch),
            ["lead"] => Some(Self::Lead),
            ["tell"] => Some(Self::Tell),
            ["abort"] => Some(Self::Abort),
            ["end", flavor, ending] => {
                let flavor = Flavor::ALL.into_iter().find(|f| format!("{f:?}") == flavor);
                let ending = Ending::ALL.into_iter().find(|e| format!("{e:?}") == ending);
                Some(Self::End(flavor?, ending?))
            }
            ["use", count] => count.parse().ok().map(Self::UseNames),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, Flavor, Role};

    #[test]
    fn a_role_is_understood() {
        let simple = [Role::Hold, Role::Watch, Role::Lead, Role::Tell, Role::Abort];
        let endings = Flavor::ALL
            .into_iter()
            .flat_map(|flavor| Ending::ALL.map(|ending| Role::End(flavor, ending)));
        for role in endings.chain(simple).chain([Role::UseNames(12)]) {
            assert_eq!(Role::from_words(&role.to_words()), Some(role));
        }
        assert_eq!(Role::from_words("end"), None);
    }
}
