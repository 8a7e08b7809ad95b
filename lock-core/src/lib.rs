//! The contract of polylock: what a distributed lock promises, and the parts every backend shares.
//!
//! Applications hold an `Arc<dyn `[`DistributedLock`]`>` and use the calls of
//! [`DistributedLockExt`]; what they get is a [`LockGuard`], the same type for every backend.
//! A backend writes two things: [`DistributedLock::acquire`] (how to take and how to wait) and
//! [`Lease`] (how to renew and release). Everything that makes a lock trustworthy is written once,
//! here: cancellation in [`Claim`], validity and loss in the guard's hold, renewal in [`Keeper`].
//!
//! [`MemoryLock`] is the contract in executable form and needs no server:
//!
//! ```
//! use lock_core::{DistributedLockExt, MemoryLock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> lock_core::Result<()> {
//! let locks = MemoryLock::new();
//! let guard = locks.lock("nightly-report").await?;
//! assert!(guard.is_held());
//! assert!(locks.try_lock("nightly-report").await?.is_none());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```

mod alarm;
mod attempts;
mod backoff;
mod capabilities;
mod claim;
mod clock;
mod driven;
mod error;
mod ext;
mod gate;
mod guard;
mod hand_off;
mod heard;
mod hold;
mod home;
mod human_duration;
mod in_flight;
mod keeper;
mod key;
mod lease;
mod line;
mod lock;
mod loss;
mod members;
mod memory;
mod patrol;
mod per_runtime;
mod queue;
mod redacted_url;
mod releases;
mod request;
mod roster;
mod scoped;
mod shutdown;
mod slow_waits;
mod state;
mod sync;
mod tls;
mod token;
mod validity;
mod ward;
mod watch;
mod watchdog;

pub use alarm::Alarm;
/// Backends and stores under test are written with it; here so that they need no dependency more.
pub use async_trait::async_trait;
pub use attempts::Attempts;
pub use backoff::Backoff;
pub use capabilities::{Capabilities, TokenOrder};
pub use claim::Claim;
pub use clock::{Clock, Moment};
pub use error::{Error, ErrorKind, Result};
pub use ext::DistributedLockExt;
pub use guard::LockGuard;
pub use hand_off::HandOff;
pub use heard::{Answered, Heard};
pub use home::{KeeperHome, KeeperPlace};
pub use human_duration::HumanDuration;
pub use in_flight::{InFlight, OneInFlight};
pub use keeper::Keeper;
pub use key::{LockKey, Namespace};
pub use lease::{HoldId, Lease, OwnerId, Released, Renewal};
pub use line::{Line, Turn};
pub use lock::DistributedLock;
pub use loss::{LossReason, LossSender};
pub use memory::MemoryLock;
pub use patrol::Patrol;
pub use per_runtime::PerRuntime;
pub use queue::{blocker, holders};
pub use redacted_url::RedactedUrl;
pub use request::{DEFAULT_TTL, LockRequest, Mode, TTL_RANGE, Wait};
pub use state::{HoldState, HoldStates};
pub use tls::Tls;
pub use token::FencingToken;
pub use watch::HoldWatch;
