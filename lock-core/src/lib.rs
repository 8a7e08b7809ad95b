//! The contract of polylock: the promises of a distributed lock, and the parts all backends share.
//!
//! Applications hold an `Arc<dyn `[`DistributedLock`]`>` and call the methods of
//! [`DistributedLockExt`], which return a [`LockGuard`], the same type for every backend.
//! [`backend`] holds the traits and parts for backend authors, and [`blocking`] has the same calls
//! for threads without async.
//!
//! [`MemoryLock`] implements the contract without a server:
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
pub mod blocking;
mod clock;
mod connection;
mod election;
mod hand_off;
mod health;
mod hold;
mod inspect;
mod keeper;
mod memory;
mod mutex;
mod owner;
mod set;
mod waiter;

pub use api::capabilities::{Capabilities, TokenOrder};
pub use api::error::{Error, ErrorKind, Result};
pub use api::guard::LockGuard;
pub use api::key::{LockKey, Namespace};
pub use api::lock::DistributedLock;
pub use api::lock_ext::DistributedLockExt;
pub use api::mysql_hold::MySqlHold;
pub use api::request::{DEFAULT_TTL, LockRequest, Mode, TTL_RANGE, Wait};
pub use api::tls::Tls;
pub use api::token::FencingToken;
pub use election::{Election, Leader, Leaders, Term};
pub use hand_off::HandOff;
pub use health::Health;
pub use hold::loss_reason::LossReason;
pub use hold::state::HoldState;
pub use hold::state_stream::HoldStates;
pub use hold::watch::HoldWatch;
pub use inspect::{HolderInfo, KeyInfo};
pub use keeper::runtime::KeeperMode;
pub use memory::MemoryLock;
pub use owner::{Owner, WithOwner};
pub use set::LockSet;

/// Traits and parts for authors of a backend.
///
/// A backend has to implement [`DistributedLock`] only. Most implementations call
/// [`acquire`](backend::acquire), which asks the store, waits, and asks again for as long as the
/// request allows. An [`Attempt`](backend::Attempt) defines how the backend asks its store once and
/// how a waiter is woken. A [`LeaseStore`](backend::LeaseStore) defines how a hold is renewed and
/// released. The [`Keeper`](backend::Keeper) does the rest.
///
/// This module may change with each minor version.
pub mod backend {
    pub(crate) mod acquire;
    pub(crate) mod backoff;
    pub(crate) mod claim;
    mod conversion;
    pub(crate) mod fair_queue;
    pub(crate) mod followers;
    pub(crate) mod lease_store;
    pub(crate) mod local_queue;
    mod permit_slots;
    pub(crate) mod reply_stats;
    pub(crate) mod retry;

    /// Makes traits with async methods usable as `dyn`, like
    /// [`DistributedLock`](crate::DistributedLock).
    pub use async_trait::async_trait;

    pub use self::acquire::{Answer, Ask, Attempt, acquire};
    pub use self::backoff::Backoff;
    pub use self::claim::Claim;
    pub use self::fair_queue::{blocking_claim, holders};
    pub use self::lease_store::{
        ClaimId, Converted, HoldId, LeaseStore, Released, Renewal, StoreGrant,
    };
    pub use self::local_queue::{LocalQueue, LocalTurn};
    pub use self::permit_slots::{WrittenSlot, free_slot, keeps_slot};
    pub use self::reply_stats::{LastReply, ReplyStats};
    pub use self::retry::Retry;
    pub use crate::api::human_duration::HumanDuration;
    pub use crate::api::redacted_url::RedactedUrl;
    pub use crate::clock::{Clock, Moment};
    pub use crate::connection::addresses::connect_to_first;
    pub use crate::connection::batch_size::BatchSize;
    pub use crate::connection::deadlines::Deadlines;
    pub use crate::connection::detached::{Detached, DetachedWork};
    pub use crate::connection::in_flight::{InFlight, OneInFlight};
    pub use crate::connection::on_demand::{Attendance, OnDemand};
    pub use crate::connection::per_runtime::PerRuntime;
    pub use crate::connection::percent::percent_decoded;
    pub use crate::connection::reconnecting::Reconnecting;
    pub use crate::connection::two_routes::TwoRoutes;
    pub use crate::hold::loss::LossSender;
    pub use crate::keeper::Keeper;
    pub use crate::keeper::recheck::RecheckHandle;
    pub use crate::keeper::runtime::KeeperRuntime;
    pub use crate::mutex::Mutex;
}
