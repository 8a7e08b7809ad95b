//! Records of lock use by several processes, and a check that no promise was broken.
//!
//! Each process writes its events to a file of its own, as lines of JSON ([`Recorder`]). Programs
//! in other languages can do the same, see [`Event`]. A process that causes faults on purpose
//! records them with their times. Afterwards [`History::read`] reads all files, and
//! [`History::check`] reports what happened and which promises of the [`Rules`] were broken:
//!
//! - Conflicting holders exclude each other, except for a moment after a fault that removed a hold.
//! - Tokens grow, as far as the backend promises it.
//! - Claims are granted in the order of arrival, where the backend promises it.
//! - No waiter is left behind, and no key stays blocked by a holder that is gone.
//!
//! The check counts only certain facts against a lock. A hold counts from a clock reading *after*
//! its acquisition has returned. It counts until the last clock reading *before* its guard said
//! that it is held. At any moment in between, its guard said so. Events that a killed process did
//! not record do not count.
//!
//! ```
//! use std::time::Duration;
//! use lock_core::{DistributedLock, LockRequest, MemoryLock};
//! use lock_testkit::history::{History, Recorder, Rules};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let recorder = Recorder::create(directory.path().join("one.jsonl"), "one")?;
//! let locks = MemoryLock::new();
//! let request = LockRequest::exclusive("refund/4001")?.with_ttl(Duration::from_secs(2));
//! let hold = recorder.acquire(&locks, request).await?.expect("nobody else wants it");
//! assert!(hold.is_held());
//! hold.release().await?;
//!
//! let history = History::read(directory.path())?;
//! let verdict = history.check(&Rules::new(&locks.capabilities()));
//! assert_eq!((verdict.grants, verdict.violations.len()), (1, 0));
//! # Ok(())
//! # }
//! ```

mod claims;
mod contention;
mod event;
mod exclusion;
mod files;
mod intervals;
mod order;
mod picture;
mod recorded;
mod recorder;
mod recovery;
mod removals;
mod rules;
mod tokens;
mod verdict;

pub use claims::History;
pub use event::{Effect, Event, Happening};
pub use recorded::RecordedGuard;
pub use recorder::{Recorder, StallWatch};
pub use rules::Rules;
pub use verdict::{Rule, Verdict, Violation};
