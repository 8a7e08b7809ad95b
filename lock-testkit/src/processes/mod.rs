//! Lock holders in other processes, which a test can kill and stop.
//!
//! A test program starts itself once more, as a child that takes a lock and plays a [`Role`]. Write
//! [`roles!`](crate::roles) once at the root of a test target, with the function that connects to
//! the store. Every test of the target can then start a [`Child`].
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lock_core::{DistributedLockExt, LockRequest, MemoryLock};
//! use lock_testkit::processes::{Child, Role};
//!
//! # async fn connect(url: String) -> MemoryLock { MemoryLock::new() }
//! lock_testkit::roles!(connect);
//!
//! async fn a_killed_holder_is_waited_out(url: &str) {
//!     let request = LockRequest::exclusive("k").unwrap().with_ttl(Duration::from_secs(3));
//!     let mut child = Child::start(url, &request, Role::Hold);
//!     let token = child.token();
//!     child.kill();
//!     let next = connect(url.to_owned()).await.lock("k").await.unwrap();
//!     assert!(next.token().value() > token);
//! }
//! # fn main() {}
//! ```

mod child;
mod end;
mod lead;
mod names;
mod parent;
mod part;
mod play;
mod role;
mod tell;
mod watch;

pub use child::Child;
pub(crate) use parent::tell_two_holders;
#[doc(hidden)]
pub use play::play as __play;
pub use role::{Ending, Flavor, Role};

/// Creates the test `roles::child`, in which a [`Child`](crate::processes::Child) plays its role.
///
/// The test does nothing in a program that was not started as a child.
///
/// The argument is an async function, `async fn(String) -> impl DistributedLock`. It connects to
/// the store that the test passes to [`Child::start`](crate::processes::Child::start), for example
/// as a URL.
///
/// Use the macro once, at the root of a test target: the parent selects the test by its name.
///
/// ```
/// # use lock_core::MemoryLock;
/// async fn connect(_url: String) -> MemoryLock {
///     MemoryLock::new()
/// }
///
/// lock_testkit::roles!(connect);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! roles {
    ($connect:expr $(,)?) => {
        #[cfg(test)]
        fn __play_role() {
            $crate::processes::__play($connect);
        }

        #[cfg(test)]
        mod roles {
            #[test]
            fn child() {
                super::__play_role();
            }
        }
    };
}
