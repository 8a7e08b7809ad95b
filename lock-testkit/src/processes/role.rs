//! What a child does with its lock.

/// What a [`Child`](super::Child) does with the lock that it has taken.
///
/// Whatever it is, what the child says first is its token. In the end it gives the lock back where its
/// role says nothing else, and it ends at once when its parent is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Holds the lock until it is killed. As long as others have it, the child is one that waits.
    Hold,
    /// Looks at its guard all the time, until it has stood still for longer than its ttl. Then it
    /// says whether its first look says that it is held, whether its loss is told at the first
    /// poll, and whether no time remains. Nudged, it says its token, as a late write would show it,
    /// and how its release ended, as `Released` or `AlreadyLost`.
    Watch,
    /// Says each time it is nudged what its wall clock shows, in seconds since 1970, and whether the
    /// lock is held: `1795212000 true`.
    Tell,
    /// Ends without unwinding, as a program that is built with `panic = "abort"` does.
    Abort,
    /// Ends a runtime or the program while the guard is held, or was dropped just now.
    End(Flavor, Ending),
    /// Gives the lock back and takes other names once each, with one client while another waits for them:
    /// for ten seconds, and then this many more. After the ten seconds, and after each quarter of the
    /// others, it says how many kilobytes of memory it has.
    UseNames(usize),
}

/// The kind of runtime that is [ended](Role::End).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// One thread, which is the one that ends it.
    CurrentThread,
    /// Several workers.
    MultiThread,
}

/// How a runtime or a program [ends](Role::End).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program says `returns` and returns from its main function right after it has dropped the
    /// guard.
    MainAfterDrop,
    /// The same while the guard is held, as from a static: nothing drops it.
    MainWhileHeld,
    /// The runtime is dropped while one of its tasks has the guard. The child says `ended`, as in all
    /// that follow, and lives on until it is nudged.
    RuntimeWithTask,
    /// The guard is dropped, and then the runtime shuts down in the background.
    ShutdownBackground,
    /// The runtime shuts down with a timeout while one of its tasks has the guard.
    ShutdownTimeout,
    /// The guard is dropped after its runtime.
    DropAfterRuntime,
}

impl Flavor {
    /// Every kind of runtime.
    pub const ALL: [Self; 2] = [Self::CurrentThread, Self::MultiThread];
}

impl Ending {
    /// Every ending.
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
    /// The role in words that [`from_words`](Self::from_words) understands.
    pub(super) fn to_words(self) -> String {
        match self {
            Self::Hold => "hold".to_owned(),
            Self::Watch => "watch".to_owned(),
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
        let simple = [Role::Hold, Role::Watch, Role::Tell, Role::Abort];
        let endings = Flavor::ALL
            .into_iter()
            .flat_map(|flavor| Ending::ALL.map(|ending| Role::End(flavor, ending)));
        for role in endings.chain(simple).chain([Role::UseNames(12)]) {
            assert_eq!(Role::from_words(&role.to_words()), Some(role));
        }
        assert_eq!(Role::from_words("end"), None);
    }
}
