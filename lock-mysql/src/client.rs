//! The connections of a client, and the requests that travel on them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{
    BatchSize, ClaimId, Deadlines, KeeperRuntime, Moment, Mutex, PerRuntime, ReplyStats,
};
use lock_core::{Error, LockKey, Result};

use crate::connection::connect::Connector;
use crate::connection::connection_id::ConnectionId;
use crate::connection::in_flight::InFlightByClaim;
use crate::connection::kill::Kill;
use crate::connection::pool::Pool;
use crate::connection::request::Request;
use crate::connection::retrying_query::QueryClaim;
use crate::connection::session::StatementResults;
use crate::error::{Failure, no_answer};
use crate::lease::poller::Poller;
use crate::row::heartbeats::Heartbeats;
use crate::row::row_locks::RowLocks;
use crate::schema::names::Names;
use crate::schema::purge::Purge;
use crate::{MySqlConfig, MySqlHold, server_checks};

/// Maximum sizes of the pools `releasing`, `renewing` and `keeping`.
const RELEASING_CONNECTIONS: u32 = 3;
const RENEWING_CONNECTIONS: u32 = 2;
const KEEPING_CONNECTIONS: u32 = 3;

/// Maximum number of holds that one packet renews.
const RENEWAL_BATCH: usize = 200;

/// Time for which a request for a claim continues after its caller gave up. Most requests are
/// answered by then, and their connections stay usable.
const INTERRUPT_AFTER: Duration = Duration::from_millis(250);

/// Time limit of each check of server and tables at connect. Creating tables waits for the disk,
/// and for other clients that create them.
const PREPARE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) hold: MySqlHold,
    /// The address of the server, as `host:port`.
    pub(crate) server: String,
    pub(crate) names: Arc<Names>,
    pub(crate) rows: Arc<RowLocks>,
    /// True if the client creates missing tables.
    creates_tables: bool,
    pub(crate) renewal_batch: BatchSize,
    /// The holds whose rows another transaction had locked at their last renewal.
    pub(crate) stalled: Mutex<HashSet<ClaimId>>,
    pub(crate) deadlines: Deadlines,
    pub(crate) heard: Arc<ReplyStats>,
    /// The maximum distance between the token of a row lock and the token stored in its row.
    pub(crate) token_age_max: u64,
    pub(crate) in_flight: Arc<InFlightByClaim>,
    keeper_runtime: KeeperRuntime,
    command: PerRuntime<CommandPools>,
    background: PerRuntime<BackgroundPools>,
}

/// The connections of takes and releases.
///
/// The caller's runtime drives the connections of leases: an answer that another thread drives
/// wakes two threads. A row lock is its connection. The keeper's runtime drives it, so that it
/// outlives the caller's runtime.
pub(crate) struct CommandPools {
    /// For takes, and for holds that are row locks.
    pub(crate) taking: Arc<Pool>,
    /// For releases and clean-ups, so that they wait for no take. A release prefers an idle
    /// connection of `taking`.
    pub(crate) releasing: Arc<Pool>,
    /// The heartbeats of the row locks held over `taking`.
    pub(crate) heartbeats: Arc<Heartbeats>,
}

/// The connections and tasks of a client on the runtime where holds are kept.
pub(crate) struct BackgroundPools {
    /// For renewals that wait for locked rows, so that no other request waits behind them.
    pub(crate) renewing: Arc<Pool>,
    /// For requests that wait for no row: looks at keys, kills, and renewals of unlocked rows.
    pub(crate) keeping: Arc<Pool>,
    pub(crate) poller: Arc<Poller>,
}

impl Client {
    /// Opens the first connection, and creates missing tables. Returns the server's version too.
    pub(crate) async fn connect(
        connector: Connector,
        config: &MySqlConfig,
        keeper_runtime: &KeeperRuntime,
    ) -> Result<(Self, String)> {
        let names = Arc::new(Names::new(config)?);
        let server = connector.server();
        let deadlines = Deadlines::new(keeper_runtime.clone());
        let (size, purge_after) = (config.connections_max()?, config.checked_purge_after()?);
        let rows = Arc::default();
        let command = command_pools(
            config.hold,
            &rows,
            keeper_runtime,
            connector.clone(),
            deadlines.clone(),
            size,
        );
        let heard = Arc::new(ReplyStats::new());
        let (laid_out, watch, answers) =
            (Arc::clone(&names), deadlines.clone(), Arc::clone(&heard));
        let background = PerRuntime::new(keeper_runtime.clone(), move |runtime| {
            let pool = |connector, size| Pool::new(connector, watch.clone(), [runtime; 2], size);
            let renewing = pool(connector.clone(), RENEWING_CONNECTIONS);
            let keeping = pool(connector.clone().keeping_one_open(), KEEPING_CONNECTIONS);
            let poller = Poller::new(
                Arc::clone(&laid_out),
                Arc::clone(&keeping),
                Arc::clone(&answers),
            );
            if let Some(after) = purge_after {
                runtime.spawn(Purge::new(Arc::clone(&laid_out), &keeping, after).run());
            }
            Arc::new(BackgroundPools {
                renewing,
                keeping,
                poller,
            })
        });
        let client = Self {
            hold: config.hold,
            server,
            names,
            rows,
            creates_tables: config.create_table,
            renewal_batch: BatchSize::new(RENEWAL_BATCH),
            stalled: Mutex::default(),
            deadlines,
            heard,
            token_age_max: token_age_max(purge_after),
            in_flight: Arc::default(),
            keeper_runtime: keeper_runtime.clone(),
            command,
            background,
        };
        let prepared = client.prepare(config).await;
        let version = prepared.map_err(|error| match error.operation() {
            Some(_) => client.at_server(error),
            None => client.at_server(error).with_operation("connect"),
        })?;
        Ok((client, version))
    }

    /// Opens the first connection, and checks server and tables. Returns the server's version.
    async fn prepare(&self, config: &MySqlConfig) -> Result<String> {
        let description = self
            .ask_to_prepare(server_checks::DESCRIBE.to_owned())
            .await?;
        let version = server_checks::check(&description, config.hold)?;
        self.prepare_tables().await?;
        Ok(version)
    }

    /// Creates missing tables if the configuration allows it, and checks all tables.
    async fn prepare_tables(&self) -> Result<()> {
        let ask = |statements| self.ask_to_prepare(statements);
        let mut description = ask(self.names.describe_tables()).await?;
        let missing = self.names.missing_tables(&description)?;
        if self.creates_tables && !missing.is_empty() {
            let created = ask(missing.join(";")).await;
            created.map_err(|error| error.with_operation("create the tables"))?;
            description = ask(self.names.describe_tables()).await?;
        }
        if self.names.check_tables(&description).is_err() {
            // Another client may have created the tables between two statements of the description.
            description = ask(self.names.describe_tables()).await?;
            self.names.check_tables(&description)?;
        }
        self.prepare_columns(description).await
    }

    /// Adds missing columns that leases can do without, if configuration and server allow it.
    async fn prepare_columns(&self, mut description: StatementResults) -> Result<()> {
        let missing = self.names.missing_columns(&description)?;
        if self.creates_tables && self.hold == MySqlHold::Lease && !missing.is_empty() {
            if let Err(error) = self.add_columns(missing).await {
                tracing::info!(%error, "mysql: the tables lack the columns holder and slot, so inspect shows no labels and permits have no slots");
            }
            description = self.ask_to_prepare(self.names.describe_tables()).await?;
        }
        let are_there = self.names.missing_columns(&description)?.is_empty();
        self.names.set_latest_columns(are_there);
        Ok(())
    }

    async fn add_columns(&self, statements: Vec<String>) -> Result<()> {
        let pool = Arc::clone(&self.background()?.keeping);
        for statement in statements {
            let lent = pool.lend(PREPARE_LIMIT).await?;
            let mut request = Request::new(&pool, lent, statement).send();
            let answered = self.deadlines.timeout(PREPARE_LIMIT, &mut request).await;
            let Some((mut lent, answer)) = answered else {
                return Err(no_answer(PREPARE_LIMIT));
            };
            // The session has another timeout for locks of tables now.
            lent.mark_broken();
            answer.map_err(Failure::into_error)?;
        }
        Ok(())
    }

    /// Sends statements that may wait for other clients that change the tables.
    async fn ask_to_prepare(&self, statements: String) -> Result<StatementResults> {
        let pool = Arc::clone(&self.background()?.keeping);
        let lent = pool.lend(PREPARE_LIMIT).await?;
        let connection = lent.connection_id.clone();
        let mut request = Request::new(&pool, lent, statements).send();
        let answer = match self.deadlines.timeout(PREPARE_LIMIT, &mut request).await {
            Some((_, answer)) => answer,
            None => Err(self.silence(&connection, PREPARE_LIMIT).await),
        };
        answer.map_err(Failure::into_error)
    }

    /// Creates tables that were dropped while the client was running.
    ///
    /// # Errors
    ///
    /// - `missing`, the server's error, if the configuration allows no creation of tables.
    /// - The error of the creation or of the check, if that fails.
    pub(crate) async fn restore_tables(&self, missing: Error) -> Result<()> {
        if !self.creates_tables {
            return Err(missing);
        }
        tracing::warn!(error = %missing, "mysql: a table was dropped, creating it again");
        // Boxed, so that a waiter's future does not contain this future.
        Box::pin(self.prepare_tables()).await
    }

    /// Adds the server's address to `error`, unless the error has an address.
    pub(crate) fn at_server(&self, error: Error) -> Error {
        error.or_server(&self.server)
    }

    /// Returns true if a transaction has locked the row of `key`.
    pub(crate) async fn is_locked(&self, key: &LockKey, limit: Duration) -> bool {
        let Ok(background) = self.background() else {
            return false;
        };
        let asked = background.keeping.ask(self.names.try_row(key), limit).await;
        matches!(asked, Err(Failure::Locked))
    }

    /// Returns the pools for takes and releases of this runtime.
    pub(crate) fn command(&self) -> Result<Arc<CommandPools>> {
        self.command.current()
    }

    /// Returns the pools for takes and releases on the runtime where holds are kept.
    pub(crate) fn keeper_connections(&self) -> Result<Arc<CommandPools>> {
        Ok(self.command.on(&self.keeper_runtime.handle()?))
    }

    /// Returns the pools that keep holds.
    pub(crate) fn background(&self) -> Result<Arc<BackgroundPools>> {
        self.background.current()
    }

    pub(crate) fn kill(&self, connection: &ConnectionId) -> Result<Kill> {
        Ok(Kill {
            pool: Arc::clone(&self.background()?.keeping),
            connection: connection.clone(),
        })
    }

    /// Waits until no request for `claim` runs in the background.
    pub(crate) async fn settled(&self, claim: ClaimId, limit: Duration) -> Result<()> {
        let Some(settled) = self.in_flight.settled(claim) else {
            return Ok(());
        };
        match self.deadlines.timeout(limit, settled).await {
            Some(()) => Ok(()),
            None => Err(no_answer(limit)),
        }
    }
}

/// A claim of a client.
pub(crate) struct ClaimOf<'a>(pub(crate) &'a Client, pub(crate) ClaimId);

impl QueryClaim for ClaimOf<'_> {
    fn adopt(&self, request: Request, connection: &ConnectionId) -> Result<Request> {
        let Self(client, claim) = self;
        let kill = client.kill(connection)?;
        Ok(request
            .of(*claim, &client.in_flight)
            .interrupted_after(INTERRUPT_AFTER, kill.until_done()))
    }

    async fn silence(&self, connection: &ConnectionId, limit: Duration) -> Failure {
        self.0.silence(connection, limit).await
    }
}

fn command_pools(
    hold: MySqlHold,
    rows: &Arc<RowLocks>,
    keeper_runtime: &KeeperRuntime,
    connector: Connector,
    deadlines: Deadlines,
    size: u32,
) -> PerRuntime<CommandPools> {
    let (driver, takes) = match hold {
        MySqlHold::Lease => (KeeperRuntime::caller(), connector.clone()),
        MySqlHold::Row => (keeper_runtime.clone(), connector.clone().in_transactions()),
    };
    let (keeper_runtime, rows) = (keeper_runtime.clone(), Arc::clone(rows));
    PerRuntime::new(driver, move |runtime| {
        let here = keeper_runtime.handle().unwrap_or_else(|_| runtime.clone());
        let pool_of = |connector: &Connector, size| {
            Pool::new(connector.clone(), deadlines.clone(), [runtime, &here], size)
        };
        let releasing = pool_of(&connector, RELEASING_CONNECTIONS);
        Arc::new(CommandPools {
            taking: pool_of(&takes, size),
            heartbeats: Heartbeats::new(Arc::clone(&rows), runtime, &releasing),
            releasing,
        })
    })
}

/// Returns an hour in units of the grant clock, or half of `purge_after` if that is less.
///
/// Storing a token also sets `expires`, by which the purge sees that the key is in use.
fn token_age_max(purge_after: Option<Duration>) -> u64 {
    let age = Duration::from_secs(60 * 60);
    let age = purge_after.map_or(age, |after| age.min(after / 2));
    u64::try_from(age.as_micros() / 4).unwrap_or(u64::MAX)
}

/// A grant that a take has won.
pub(crate) struct NumberedGrant {
    pub(crate) grant: u64,
    /// The slot of a permit.
    pub(crate) slot: Option<u32>,
    /// When the take was sent. The server granted the lock no earlier.
    pub(crate) sent: Moment,
}
