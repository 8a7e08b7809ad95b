//! The contract of polylock: what a distributed lock promises, and the parts every backend shares.
//!
//! Applications hold an `Arc<dyn `[`DistributedLock`]`>` and use the calls of
//! [`DistributedLockExt`]; what they get is a [`LockGuard`], the same type for every backend.
//! A backend writes two things: [`DistributedLock::acquire`] (how to take and how to wait) and
//! [`LeaseStore`] (how to renew and release). Everything that makes a lock trustworthy is written once,
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

mod api;
mod backend;
mod clock;
mod hand_off;
mod hold;
mod keeper;
mod memory;
mod mutex;
mod waiter;

pub use api::capabilities::{Capabilities, TokenOrder};
pub use api::error::{Error, ErrorKind, Result};
pub use api::guard::LockGuard;
pub use api::human_duration::HumanDuration;
pub use api::key::{LockKey, Namespace};
pub use api::lock::DistributedLock;
pub use api::lock_ext::DistributedLockExt;
pub use api::mysql_hold::MySqlHold;
pub use api::redacted_url::RedactedUrl;
pub use api::request::{DEFAULT_TTL, LockRequest, Mode, TTL_RANGE, Wait};
pub use api::tls::Tls;
pub use api::token::FencingToken;
/// Backends and stores under test are written with it; here so that they need no dependency more.
pub use async_trait::async_trait;
pub use backend::acquire::{Answer, Ask, Attempt, acquire};
pub use backend::backoff::Backoff;
pub use backend::claim::Claim;
pub use backend::deadlines::Deadlines;
pub use backend::fair_queue::{blocking_claim, holders};
pub use backend::in_flight::{InFlight, OneInFlight};
pub use backend::lease_store::{HoldId, LeaseStore, OwnerId, Released, Renewal};
pub use backend::local_queue::{LocalQueue, LocalTurn};
pub use backend::per_runtime::PerRuntime;
pub use backend::percent::percent_decoded;
pub use backend::reconnecting::Reconnecting;
pub use backend::reply_stats::{LastReply, ReplyStats};
pub use backend::retry::Retry;
pub use clock::{Clock, Moment};
pub use hand_off::HandOff;
pub use hold::loss::LossSender;
pub use hold::loss_reason::LossReason;
pub use hold::state::HoldState;
pub use hold::states::HoldStates;
pub use hold::watch::HoldWatch;
pub use keeper::Keeper;
pub use keeper::recheck::RecheckHandle;
pub use keeper::runtime::{KeeperMode, KeeperRuntime};
pub use memory::MemoryLock;
pub use mutex::Mutex;
