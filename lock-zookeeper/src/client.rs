//! The client of one ensemble: its sessions, claims and holds.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{
    ClaimId, Clock, Deadlines, HoldId, HumanDuration, KeeperRuntime, Moment, PerRuntime, Released,
    ReplyStats,
};
use lock_core::{Capabilities, DEFAULT_TTL, Error, ErrorKind, LockKey, Result};
use zookeeper_client::Error as ZooKeeperError;

use crate::ZooKeeperConfig;
use crate::claim::registry::{ClaimRecord, ClaimRegistry};
use crate::claim::removal::remove;
use crate::connection::connect::Connector;
use crate::connection::request_size::RequestSizes;
use crate::error::{BACKEND, config_error, error_of, translate};
use crate::lock_nodes::LockNodeSweeper;
use crate::paths::Paths;
use crate::session::connection::{lasting, longest_minimum};
use crate::session::pool::{OPENING_LIMIT, SessionOptions, SessionPool};
use crate::session::reattach::Reattaching;
use crate::session::remembered::Remembered;
use crate::session::requests::Session;
use crate::session::ttl_class::class;

/// The time that a ping waits for its answer.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// The time that a release waits for its answer. The whole release has to end within a second.
const RELEASE_LIMIT: Duration = Duration::from_millis(900);

pub(crate) struct Client {
    pub(crate) paths: Paths,
    pub(crate) registry: Arc<ClaimRegistry>,
    pub(crate) deadlines: Deadlines,
    pub(crate) replies: ReplyStats,
    /// The keys that were held when this client tried them, and have not been seen free since.
    ///
    /// A try takes any other key without a look, by creating a node first. A refused try creates
    /// and deletes a node, which are two writes of the ensemble. So a try looks at these keys
    /// first.
    pub(crate) refused: Remembered<LockKey>,
    pools: PerRuntime<SessionPool>,
    pub(crate) lock_nodes: Arc<LockNodeSweeper>,
    /// The shortest and the longest session timeout that the server grants.
    pub(crate) bounds: RangeInclusive<Duration>,
    address: String,
    version: Option<String>,
    /// The ttls whose shortening was logged.
    shortened: Remembered<Duration>,
    /// The paths of nodes that were seen to be ephemeral, so that they are not checked again.
    pub(crate) claims: Remembered<String>,
    pub(crate) request_sizes: Arc<RequestSizes>,
}

impl Client {
    /// Connects to the ensemble, and opens a session for holds of `ttl`.
    pub(crate) async fn connect(
        config: &ZooKeeperConfig,
        keeper_runtime: &KeeperRuntime,
        ttl: Duration,
    ) -> Result<Self> {
        check_chroot(&config.chroot)?;
        let paths = Paths::new(&config.chroot, &config.namespace);
        let deadlines = Deadlines::new(keeper_runtime.clone());
        let lock_nodes = Arc::new(LockNodeSweeper::new(
            paths.clone(),
            deadlines.clone(),
            keeper_runtime.clone(),
        ));
        let registry = Arc::<ClaimRegistry>::default();
        let connector = Arc::new(Connector::new(config)?);
        let options = SessionOptions {
            reattaching: Arc::new(Reattaching::new(
                Arc::clone(&connector),
                Arc::downgrade(&registry),
            )),
            registry: Arc::clone(&registry),
            lock_nodes: Arc::clone(&lock_nodes),
            deadlines: deadlines.clone(),
        };
        let address = connector.address();
        let mut client = Self {
            lock_nodes,
            bounds: ttl..=ttl,
            address,
            version: None,
            shortened: Remembered::default(),
            claims: Remembered::default(),
            request_sizes: Arc::clone(&connector.request_sizes),
            pools: PerRuntime::new(keeper_runtime.clone(), move |runtime| {
                SessionPool::new(options.clone(), runtime.clone())
            }),
            paths,
            registry,
            deadlines,
            replies: ReplyStats::new(),
            refused: Remembered::default(),
        };
        let pool = client.pools.current()?;
        let session = pool.session(ttl, Duration::ZERO).await?;
        let asking = session.reads_together();
        let answer = client.deadlines.timeout(OPENING_LIMIT, asking).await;
        // Only this request shows that the server is older than version 3.6.
        if let Some(Err(error @ ZooKeeperError::Unimplemented)) = answer {
            return Err(translate(error));
        }
        client.bounds = pool.bounds().await?;
        client.version = connector.version().await;
        Ok(client)
    }

    /// Logs the address and the version of the server.
    pub(crate) fn log_connected(&self, capabilities: &Capabilities) {
        capabilities.log_connected(&self.address, self.version.as_deref());
    }

    /// Returns the session for `hold`, on the caller's runtime or the keeper's.
    ///
    /// The session times out after at most the ttl and the lock delay of `hold`, or after its
    /// minimum hold if that is longer.
    pub(crate) async fn session(&self, hold: &HoldId) -> Result<Arc<Session>> {
        let (ttl, lock_delay, reserve) = (hold.ttl(), hold.lock_delay(), hold.reserve());
        let least = lasting(hold.min_hold());
        let asked = class(ttl, lock_delay, least, &self.bounds);
        let pool = self.pools.current()?;
        let session = pool.session(asked, reserve.max(least)).await?;
        check_lasts(&session, hold)?;
        let granted = session.ttl(reserve).saturating_sub(reserve);
        let timeout = session.link.timeout();
        if timeout < ttl + lock_delay && self.shortened.add(ttl) {
            tracing::info!(
                backend = BACKEND,
                "zookeeper: ttl {} is shortened: the session times out after {}, of which {} count",
                HumanDuration(ttl),
                HumanDuration(timeout),
                HumanDuration(granted)
            );
        }
        Ok(session)
    }

    /// Returns a session that is open, or opens one for the default ttl.
    pub(crate) async fn any_session(&self) -> Result<Arc<Session>> {
        let pool = self.pools.current()?;
        if let Some(session) = pool.shorter(Duration::MAX, Duration::ZERO) {
            return Ok(session);
        }
        let ttl = class(DEFAULT_TTL, Duration::ZERO, Duration::ZERO, &self.bounds);
        pool.session(ttl, Duration::ZERO).await
    }

    /// Confirms a session by a transaction of the members that changes nothing. Opens a session for
    /// the default ttl if there is none.
    pub(crate) async fn confirm_a_session(&self) -> Result<()> {
        let session = self.any_session().await?;
        let confirming = self.deadlines.timeout(REPLY_LIMIT, session.confirm());
        match confirming.await {
            Some(confirmed) => confirmed.map_err(translate),
            None => Err(self.request_sizes.no_answer(REPLY_LIMIT)),
        }
    }

    /// Adds the addresses of the ensemble to an error that names no server.
    pub(crate) fn at_server(&self, error: Error) -> Error {
        error.or_server(&self.address)
    }

    /// Deletes the node of a hold or claim, after all earlier requests for that node.
    pub(crate) async fn release_claim(&self, hold: &HoldId) -> Result<Released> {
        let Some(record) = self.registry.get(hold.claim()) else {
            return Ok(Released::AlreadyLost);
        };
        let begun = Clock::Boot.now();
        self.registry
            .update(hold.claim(), |record| record.released = Some(begun));
        let removing = remove(&record);
        let removed = self.deadlines.timeout(RELEASE_LIMIT, removing).await;
        match removed.unwrap_or_else(|| Err(self.request_sizes.no_answer(RELEASE_LIMIT))) {
            Ok(was_there) => {
                self.left(hold.claim());
                Ok(match was_there {
                    true => Released::Released,
                    false => Released::AlreadyLost,
                })
            }
            Err(error) => {
                self.stuck(hold, &record, begun);
                Err(error)
            }
        }
    }

    /// Notes that the node of a claim is gone.
    pub(crate) fn left(&self, claim: ClaimId) {
        if let Some(record) = self.registry.leave(claim) {
            record.session.touch();
            self.lock_nodes.left(record.lock, record.session);
        }
    }

    /// Notes a failed release, and retires the session if the node cannot be deleted within its
    /// ttl.
    ///
    /// The keeper repeats the release until then. A node lives as long as its session, and a
    /// retired session closes when none of its claims is in use.
    fn stuck(&self, hold: &HoldId, record: &ClaimRecord, begun: Moment) {
        let since = record.stuck_since.unwrap_or(begun);
        self.registry
            .update(hold.claim(), |record| record.stuck_since = Some(since));
        // A release is repeated for as long as a hold in this session counts, which is less than
        // the timeout.
        let granted = record.session.ttl(hold.reserve());
        let ttl = hold.store_ttl().min(granted);
        if Clock::Boot.now().since(since) >= ttl * 9 / 10 {
            record.session.retire();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the connector, which has the password.
        f.debug_tuple("Client").field(&self.address).finish()
    }
}

/// Rejects a session that may end before the minimum hold of `hold` is over. The servers of an
/// ensemble may grant different timeouts.
pub(crate) fn check_lasts(session: &Session, hold: &HoldId) -> Result<()> {
    let longest = longest_minimum(session.link.timeout());
    if hold.min_hold() <= longest {
        return Ok(());
    }
    let (minimum, longest) = (HumanDuration(hold.min_hold()), HumanDuration(longest));
    let message = format!(
        "minimum hold {minimum} is longer than this server grants: it may be {longest} at most, or raise maxSessionTimeout on all servers"
    );
    Err(error_of(ErrorKind::Unsupported, message))
}

pub(crate) fn check_chroot(chroot: &str) -> Result<()> {
    let levels = chroot.strip_prefix('/').map(|levels| levels.split('/'));
    let is_well_formed = match levels {
        None => chroot.is_empty(),
        Some(mut levels) => levels.all(|level| !matches!(level, "" | "." | "..")),
    };
    if is_well_formed {
        return Ok(());
    }
    Err(config_error(format!(
        "chroot {chroot:?} is malformed: write it like /app/locks, or leave it out"
    )))
}
