//! Failures that mean two holders at once: a machine that stood still is no excuse for them.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id, Runtime};

use crate::processes;

/// Asserts that something is excluded while somebody else holds the lock: that a key is refused, that a
/// guard has learned of its end, that a critical section was entered alone.
///
/// It fails as `assert!` does. [`steady`](crate::steady) never runs such a failure again, be it in
/// another task or thread, or in a [child](crate::processes::Child): who is let in does not depend on
/// how fast the machine is.
///
/// ```
/// # use lock_core::{DistributedLockExt, MemoryLock};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = MemoryLock::new();
/// let first = locks.lock("k").await?;
/// let second = locks.try_lock("k").await?;
/// lock_testkit::assert_excluded!(second.is_none(), "{first:?} and {second:?}");
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! assert_excluded {
    ($excluded:expr $(,)?) => {
        $crate::assert_excluded!($excluded, "not so: {}", stringify!($excluded))
    };
    ($excluded:expr, $($message:tt)+) => {
        if !$excluded {
            $crate::__two_holders(format_args!($($message)+));
        }
    };
}

static SEEN: Mutex<Seen> = Mutex::new(Seen {
    attempts: Vec::new(),
    elsewhere: 0,
});

/// The failures that were seen.
struct Seen {
    /// The runtimes of the tests under way, and whether it was on theirs.
    attempts: Vec<(Id, bool)>,
    /// How many were on no runtime, or on one that a test has made: they may be anybody's.
    elsewhere: u64,
}

/// A run of a test on a runtime of its own.
pub(crate) struct Attempt {
    runtime: Id,
    elsewhere_before: u64,
}

impl Attempt {
    pub(crate) fn on(runtime: &Runtime) -> Self {
        let mut seen = seen();
        let runtime = runtime.handle().id();
        seen.attempts.push((runtime, false));
        Self {
            runtime,
            elsewhere_before: seen.elsewhere,
        }
    }

    /// Returns true if a failure since its begin may be this one's.
    pub(crate) fn saw_two_holders(&self) -> bool {
        let seen = seen();
        let mut mine = seen.attempts.iter().filter(|(id, _)| *id == self.runtime);
        seen.elsewhere > self.elsewhere_before || mine.any(|(_, failed)| *failed)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        seen().attempts.retain(|(id, _)| *id != self.runtime);
    }
}

/// The runtime that a failure here would belong to.
pub(crate) fn here() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// Notes a failure that happened on `runtime`.
pub(crate) fn note(runtime: Option<Id>) {
    let mut seen = seen();
    match seen
        .attempts
        .iter_mut()
        .find(|(id, _)| Some(*id) == runtime)
    {
        Some((_, failed)) => *failed = true,
        None => seen.elsewhere += 1,
    }
}

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The failure of [`assert_excluded!`].
#[doc(hidden)]
#[cold]
#[track_caller]
pub fn two_holders(message: fmt::Arguments<'_>) -> ! {
    note(here());
    processes::tell_two_holders();
    panic!("two holders: {message}")
}
