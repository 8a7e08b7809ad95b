//! [`KeyInfo`]: the holders of one key, and the number of its waiters.

use std::time::{Duration, SystemTime};

use crate::inspect::metadata::HolderMetadata;
use crate::{FencingToken, Mode};

/// The holders of a key, and the number of its waiters, from
/// [`inspect`](crate::DistributedLockExt::inspect).
///
/// It was true when the store answered. It decides nothing: by the time it is read, the key may
/// have other holders.
///
/// ```
/// use lock_core::{DistributedLock, DistributedLockExt, LockRequest, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = MemoryLock::new();
/// let request = LockRequest::exclusive("ledger")?.labelled("nightly report")?;
/// let guard = locks.acquire(request).await?.expect("free");
///
/// let info = locks.inspect("ledger").await?;
/// assert_eq!(info.holders[0].label.as_deref(), Some("nightly report"));
/// assert_eq!(info.holders[0].pid, Some(std::process::id()));
/// assert_eq!(info.holders[0].token, Some(guard.token()));
/// assert_eq!(info.waiters, Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInfo {
    /// The holders, in no particular order. Empty for a free key.
    pub holders: Vec<HolderInfo>,
    /// The number of claims that wait for the key on the store; `None` if the store does not know.
    ///
    /// With a [`HandOff`](crate::HandOff), as made by `polylock::connect`, it counts at most one
    /// waiter of each client. The Redis backend counts clients that asked within the last second.
    pub waiters: Option<usize>,
}

impl KeyInfo {
    /// Creates the information of a key with these `holders`.
    pub fn new(holders: Vec<HolderInfo>) -> Self {
        Self {
            holders,
            waiters: None,
        }
    }

    /// Sets the number of waiters.
    #[must_use]
    pub fn with_waiters(mut self, waiters: usize) -> Self {
        self.waiters = Some(waiters);
        self
    }
}

/// One holder of a key. A field that the store does not know is `None`.
///
/// Label, host, pid and time are stored by the holder's own client, in the request that takes the
/// lock. They are `None` for holders of clients that store none: other lock programs, and earlier
/// versions of polylock.
///
/// ```
/// use lock_core::HolderInfo;
///
/// let stranger = HolderInfo::foreign();
/// assert!(stranger.foreign && stranger.label.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderInfo {
    /// The mode of the hold.
    pub mode: Option<Mode>,
    /// The [label](crate::LockRequest::labelled) of the request.
    pub label: Option<String>,
    /// The name of the holder's machine; `unknown` if the holder could not read it.
    pub host: Option<String>,
    /// The number of the holder's process.
    pub pid: Option<u32>,
    /// When the holder sent its take, by the clock of the holder's machine, which may be wrong.
    ///
    /// On stores with a queue (etcd, ZooKeeper) a holder that had to wait entered the queue at this
    /// time.
    pub since: Option<SystemTime>,
    /// The token of the grant. A hold that was [handed on](crate::HandOff) or shared inside a
    /// process keeps the token of its first guard here.
    pub token: Option<FencingToken>,
    /// Time until the store ends the hold, if it is not renewed.
    pub ttl_left: Option<Duration>,
    /// True if another lock program holds the key.
    pub foreign: bool,
}

impl HolderInfo {
    /// Creates the information of a holder of which nothing else is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the information of a holder that is another lock program.
    pub fn foreign() -> Self {
        Self {
            foreign: true,
            ..Self::default()
        }
    }

    /// Sets the mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the token by the grant number that the store gave; ignores a number that is no grant.
    #[must_use]
    pub fn with_grant(mut self, grant: u64) -> Self {
        self.token = FencingToken::from_grant(grant).ok();
        self
    }

    /// Sets the time until the store ends the hold.
    #[must_use]
    pub fn with_ttl_left(mut self, left: Duration) -> Self {
        self.ttl_left = Some(left);
        self
    }

    /// Sets label, host, pid and time from the text that the holder
    /// [stored](crate::backend::HoldId::metadata); ignores any other text.
    ///
    /// It also sets the mode of a permit, unless the mode is known.
    #[must_use]
    pub fn with_metadata(mut self, stored: &str) -> Self {
        let Some(metadata) = HolderMetadata::parse(stored) else {
            return self;
        };
        self.label = metadata.label.map(str::to_owned);
        self.host = Some(metadata.host.to_owned());
        self.pid = Some(metadata.pid);
        self.since = SystemTime::UNIX_EPOCH.checked_add(metadata.since);
        self.mode = metadata.mode.or(self.mode);
        self
    }
}
