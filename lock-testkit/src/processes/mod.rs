//! Other processes, which can be killed and stopped: a test program that starts itself once more, as
//! a child that takes a lock and plays a [`Role`] with it.
//!
//! Write [`roles!`](crate::roles) once at the root of a test target, with the function that connects
//! to the store; every test there may then start a [`Child`].
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

/// Makes the test `roles::child`, in which a [`Child`](crate::processes::Child) plays its role. It does
/// nothing where the program was not started as a child.
///
/// It takes an async function, `async fn(String) -> impl DistributedLock`, that connects to the store
/// which the child is told of: a url, or whatever a test gives to
/// [`Child::start`](crate::processes::Child::start).
///
/// Use it once, at the root of a test target: the child is found by the name of its test.
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
