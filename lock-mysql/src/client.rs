//! The connections of a client, and the requests that travel on them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{
    Capabilities, Deadlines, Error, HumanDuration, KeeperRuntime, LockKey, Mode, Moment, OwnerId,
    PerRuntime, ReplyStats, Result,
};

use crate::batch::BatchSize;
use crate::error::{Failure, no_answer};
use crate::heartbeats::Heartbeats;
use crate::identity::Identity;
use crate::kill::Kill;
use crate::layout::Layout;
use crate::leases::RENEWAL_BATCH;
use crate::poller::{Poller, Watcher};
use crate::pool::{Driven, Pool};
use crate::purge::Purge;
use crate::request::{Request, Unsettled};
use crate::rows::Rows;
use crate::session::Answer;
use crate::wire::{Wire, config_error};
use crate::{MySqlConfig, MySqlHold, server};

/// How many connections release and clean up, how many renew and wait for rows that are locked, and how
/// many do what waits for nothing.
const BACKGROUND_CONNECTIONS: u32 = 3;
const RENEWING_CONNECTIONS: u32 = 2;
const KEEPING_CONNECTIONS: u32 = 3;

/// How long each question about server and tables may take at first: tables that are missing are created, which
/// waits for the disk, and for others who create them.
const PREPARE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) hold: MySqlHold,
    /// Where the server is, as `host:port`.
    server: String,
    pub(crate) layout: Arc<Layout>,
    pub(crate) rows: Arc<Rows>,
    /// Whether tables that are missing are created.
    creates_tables: bool,
    pub(crate) renewal_batch: BatchSize,
    /// Those whose rows were locked by somebody else when they were to be renewed.
    pub(crate) stalled: Mutex<HashSet<OwnerId>>,
    pub(crate) deadlines: Deadlines,
    pub(crate) heard: Arc<ReplyStats>,
    /// How far the token of a row lock may be ahead of the one that is written down in its row.
    pub(crate) token_age_max: u64,
    pub(crate) unsettled: Arc<Unsettled>,
    keeper_runtime: KeeperRuntime,
    lanes: PerRuntime<Lane>,
    stations: PerRuntime<Station>,
}

/// The connections of those who take and release. Where holds are leases they are driven by the runtime of
/// whoever asks, since every answer that another thread drives has to wake two. A row lock is its connection:
/// that is driven where holds are kept, so that no caller whose runtime stands still or ends takes it along.
#[derive(Debug)]
pub(crate) struct Lane {
    /// For takes, and for holds that are row locks.
    pub(crate) command: Arc<Pool>,
    /// For releases and clean-ups that find none of the others idle, so that they get through whatever takes wait for.
    pub(crate) background: Arc<Pool>,
    /// Those of the row locks that are held over `command`.
    pub(crate) heartbeats: Arc<Heartbeats>,
}

/// What a client has where holds are kept.
#[derive(Debug)]
pub(crate) struct Station {
    /// For renewals that wait for rows, so that nothing else waits for them.
    pub(crate) renewing: Arc<Pool>,
    /// For what waits for no row, so that it gets through: looks, interruptions and renewals.
    pub(crate) keeping: Arc<Pool>,
    poller: Arc<Poller>,
}

impl Client {
    /// Opens the first connection, and creates tables that are missing.
    pub(crate) async fn connect(
        config: &MySqlConfig,
        keeper_runtime: &KeeperRuntime,
        capabilities: &Capabilities,
    ) -> Result<Self> {
        let layout = Arc::new(Layout::new(config)?);
        let wire = Wire::new(config)?;
        let server = wire.server();
        let deadlines = Deadlines::new(keeper_runtime.clone());
        let (size, purge_after) = (connections(config)?, purge_after(config)?);
        let rows = Arc::default();
        let lanes = lanes(
            config.hold,
            &rows,
            keeper_runtime,
            wire.clone(),
            deadlines.clone(),
            size,
        );
        let heard = Arc::new(ReplyStats::new());
        let (laid_out, watch, answers) =
            (Arc::clone(&layout), deadlines.clone(), Arc::clone(&heard));
        let stations = PerRuntime::new(keeper_runtime.clone(), move |runtime| {
            let driven = Driven::by(runtime, runtime);
            let pool = |wire, size| Pool::new(wire, watch.clone(), driven.clone(), size);
            let renewing = pool(wire.clone(), RENEWING_CONNECTIONS);
            let keeping = pool(wire.clone().vital(), KEEPING_CONNECTIONS);
            let poller = Poller::new(
                Arc::clone(&laid_out),
                Arc::clone(&keeping),
                Arc::clone(&answers),
            );
            if let Some(after) = purge_after {
                runtime.spawn(Purge::new(Arc::clone(&laid_out), &keeping, after).run());
            }
            Arc::new(Station {
                renewing,
                keeping,
                poller,
            })
        });
        let client = Self {
            hold: config.hold,
            server,
            layout,
            rows,
            creates_tables: config.create_table,
            renewal_batch: BatchSize::new(RENEWAL_BATCH),
            stalled: Mutex::default(),
            deadlines,
            heard,
            token_age_max: token_age_max(purge_after),
            unsettled: Arc::default(),
            keeper_runtime: keeper_runtime.clone(),
            lanes,
            stations,
        };
        let prepared = client.prepare(config).await;
        let version = prepared.map_err(|error| match error.operation() {
            Some(_) => client.at_server(error),
            None => client.at_server(error).with_operation("connect"),
        })?;
        capabilities.log_connected(&client.server, Some(&version));
        Ok(client)
    }

    /// Opens the first connection and looks whether server and tables are fit; returns the server's version.
    async fn prepare(&self, config: &MySqlConfig) -> Result<String> {
        let description = self.ask_to_prepare(server::DESCRIBE.to_owned()).await?;
        let version = server::check(&description, config.hold)?;
        self.prepare_tables().await?;
        Ok(version)
    }

    /// Creates the tables that are missing, if that is wanted, and looks whether they are fit.
    async fn prepare_tables(&self) -> Result<()> {
        let ask = |statements| self.ask_to_prepare(statements);
        let mut description = ask(self.layout.describe_tables()).await?;
        let missing = self.layout.missing_tables(&description)?;
        if self.creates_tables && !missing.is_empty() {
            let created = ask(missing.join(";")).await;
            created.map_err(|error| error.with_operation("create the tables"))?;
            description = ask(self.layout.describe_tables()).await?;
        }
        match self.layout.check_tables(&description) {
            // Somebody may have created them between two statements of the description.
            Err(_) => self
                .layout
                .check_tables(&ask(self.layout.describe_tables()).await?),
            Ok(()) => Ok(()),
        }
    }

    /// Asks what may wait for others who change tables.
    async fn ask_to_prepare(&self, statements: String) -> Result<Answer> {
        let pool = Arc::clone(&self.station()?.keeping);
        let lent = pool.lend(PREPARE_LIMIT).await?;
        let connection = lent.identity.clone();
        let mut request = Request::new(&pool, lent, statements);
        let answer = match self.deadlines.timeout(PREPARE_LIMIT, &mut request).await {
            Some((_, answer)) => answer,
            None => Err(self.silence(&connection, PREPARE_LIMIT).await),
        };
        answer.map_err(Failure::into_error)
    }

    /// Creates tables that were dropped while the client runs.
    ///
    /// # Errors
    ///
    /// `missing`, what the server said of them, if tables are not to be created.
    pub(crate) async fn restore_tables(&self, missing: Error) -> Result<()> {
        if !self.creates_tables {
            return Err(missing);
        }
        tracing::warn!(error = %missing, "mysql: a table was dropped, creating it again");
        // Boxed, or each waiter would have room for it.
        Box::pin(self.prepare_tables()).await
    }

    /// Has `error` name the server, unless it does.
    pub(crate) fn at_server(&self, error: Error) -> Error {
        match error.server() {
            Some(_) => error,
            None => error.with_server(self.server.clone()),
        }
    }

    /// Whether somebody has the row of `key` locked just now.
    pub(crate) async fn is_locked(&self, key: &LockKey, limit: Duration) -> bool {
        let Ok(station) = self.station() else {
            return false;
        };
        let asked = station.keeping.ask(self.layout.try_row(key), limit).await;
        matches!(asked, Err(Failure::Locked))
    }

    /// The connections for takes and releases here.
    pub(crate) fn lane(&self) -> Result<Arc<Lane>> {
        self.lanes.here()
    }

    /// Those that are driven where holds are kept.
    pub(crate) fn lane_of_keeper(&self) -> Result<Arc<Lane>> {
        Ok(self.lanes.on(&self.keeper_runtime.handle()?))
    }

    /// The connections of the runtime that holds are kept on.
    pub(crate) fn station(&self) -> Result<Arc<Station>> {
        self.stations.here()
    }

    /// Waits for `key` to become free for `mode`.
    pub(crate) fn watch(&self, key: &LockKey, mode: Mode) -> Result<Watcher> {
        Ok(self.station()?.poller.watch(self.layout.row(key), mode))
    }

    /// Has those who wait for `key` in this process look at once.
    pub(crate) fn wake(&self, key: &LockKey) {
        if let Ok(station) = self.station() {
            station.poller.wake(&self.layout.row(key));
        }
    }

    /// What ends a connection on the server, together with what it waits for and its transaction.
    pub(crate) fn kill(&self, connection: &Identity) -> Result<Kill> {
        Ok(Kill {
            pool: Arc::clone(&self.station()?.keeping),
            connection: connection.clone(),
        })
    }

    /// Waits until nothing that was asked for `owner` goes on in the background.
    pub(crate) async fn settled(&self, owner: OwnerId, limit: Duration) -> Result<()> {
        let Some(settled) = self.unsettled.settled(owner) else {
            return Ok(());
        };
        match self.deadlines.timeout(limit, settled).await {
            Some(()) => Ok(()),
            None => Err(no_answer(limit)),
        }
    }
}

fn lanes(
    hold: MySqlHold,
    rows: &Arc<Rows>,
    keeper_runtime: &KeeperRuntime,
    wire: Wire,
    deadlines: Deadlines,
    size: u32,
) -> PerRuntime<Lane> {
    let (driver, takes) = match hold {
        MySqlHold::Lease => (KeeperRuntime::caller(), wire.clone()),
        MySqlHold::Row => (keeper_runtime.clone(), wire.clone().in_transactions()),
    };
    let (keeper_runtime, rows) = (keeper_runtime.clone(), Arc::clone(rows));
    PerRuntime::new(driver, move |runtime| {
        let here = keeper_runtime.handle().unwrap_or_else(|_| runtime.clone());
        let pool_of = |wire: &Wire, size| {
            let driven = Driven::by(runtime, &here);
            Pool::new(wire.clone(), deadlines.clone(), driven, size)
        };
        let background = pool_of(&wire, BACKGROUND_CONNECTIONS);
        Arc::new(Lane {
            command: pool_of(&takes, size),
            heartbeats: Heartbeats::new(Arc::clone(&rows), runtime, &background),
            background,
        })
    })
}

/// How many connections there may be for takes and holds.
fn connections(config: &MySqlConfig) -> Result<u32> {
    match (config.connections, config.hold) {
        (Some(0), _) => Err(config_error(
            "connections: 0 connections can take no lock: allow at least 1",
        )),
        (Some(limit), _) => Ok(limit),
        (None, MySqlHold::Lease) => Ok(8),
        (None, MySqlHold::Row) => Ok(64),
    }
}

fn purge_after(config: &MySqlConfig) -> Result<Option<Duration>> {
    match config.purge_after {
        Some(after) if after < Duration::from_secs(1) => Err(config_error(format!(
            "purge_after {} is too short: keep unused keys for at least 1 s, or for ever",
            HumanDuration(after)
        ))),
        after => Ok(after),
    }
}

/// An hour, in units of the grants' clock, or less where rows would be purged by then: writing it down
/// also tells the purge that the key is in use.
fn token_age_max(purge_after: Option<Duration>) -> u64 {
    let age = Duration::from_secs(60 * 60);
    let age = purge_after.map_or(age, |after| age.min(after / 2));
    u64::try_from(age.as_micros() / 4).unwrap_or(u64::MAX)
}

/// What a take has won.
pub(crate) struct Won {
    /// The grant's number.
    pub(crate) grant: u64,
    /// From when on the store holds it, at least.
    pub(crate) sent: Moment,
}
