//! What happened to locks, written down by every process that used them, and the proof that nothing
//! forbidden did.
//!
//! Each process writes what it does to a file of its own, as lines of JSON ([`Recorder`]); programs in
//! other languages can do the same, see [`Event`]. Whoever causes trouble on purpose writes down what it
//! did and when. Afterwards a [`History`] is read from all files, and [`History::check`] tells what there
//! was and which promise of the [`Rules`] was broken:
//!
//! - no two holders that conflict, except for a moment after the store was made to forget a hold;
//! - tokens that grow, as far as the backend promises it;
//! - the order of arrival, where it is promised;
//! - no waiter that is left behind, and no key that stays blocked by a holder that is gone.
//!
//! Only what is certain is held against a lock. A hold counts from a look at the clock *after* its
//! acquisition has returned, until the last look at the clock *before* its guard said that it is held: at
//! any moment in between it said so. What a process did not live to write down counts for nobody.
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
