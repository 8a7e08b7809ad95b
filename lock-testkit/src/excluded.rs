//! Failures that mean two holders at the same time. A stall of the machine never excuses them.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id, Runtime};

use crate::processes;

/// Asserts that a lock excludes: for example that a held key is refused to another client.
///
/// Use it also for a guard that has to know of its end, or for a critical section.
///
/// The macro fails like `assert!`, but [`steady`](crate::steady) never repeats such a failure,
/// since exclusion does not depend on the speed of the machine. That includes failures in other
/// tasks and threads, and in a [child](crate::processes::Child).
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

/// The failures of this process, by runtime.
struct Seen {
    /// The runtimes of the tests under way; true if the runtime has seen a failure.
    attempts: Vec<(Id, bool)>,
    /// The number of failures on no runtime or on another runtime. They may belong to any test.
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

    /// Returns true if a failure since the start of this run may belong to it.
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

/// Returns the runtime of the caller, to which a failure belongs.
pub(crate) fn here() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// Notes a failure on `runtime`.
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

/// Panics with the message of a failed [`assert_excluded!`].
#[doc(hidden)]
#[cold]
#[track_caller]
pub fn two_holders(message: fmt::Arguments<'_>) -> ! {
    note(here());
    processes::tell_two_holders();
    panic!("two holders: {message}")
}
