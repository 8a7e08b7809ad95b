//! The connections of a client, and the requests on them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Clock, Deadlines, HoldId, KeeperRuntime, PerRuntime};
use lock_core::{Error, ErrorKind, LockKey, Result};
use redis::{AsyncConnectionConfig, PushInfo, Value};

use crate::RedisConfig;
use crate::commands::calls::Asks;
use crate::commands::script::FLOOR;
use crate::connection::connect::Connector;
use crate::connection::multiplexed::{Connection, Tracking};
use crate::connection::shared_connection::{ConnectOptions, SharedConnection};
use crate::error::BACKEND;
use crate::keys::Keys;
use crate::notifications::Notifications;
use crate::server_checks::{self, ServerClock};

/// Default limit of a request's answer.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Client {
    /// The client's name in the queues of waiters on the server.
    pub(crate) name: String,
    pub(crate) keys: Keys,
    /// One connection per runtime that acquires.
    pub(crate) command: PerRuntime<SharedConnection>,
    pub(crate) background: PerRuntime<SharedConnection>,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) server_clock: ServerClock,
    pub(crate) deadlines: Deadlines,
}

/// The server's properties that a connect has found.
pub(crate) struct Found {
    /// True if the server pushes changes of keys.
    pub(crate) pushes: bool,
    /// The server as `host:port`.
    pub(crate) server: String,
    /// The server's version, if it reports one.
    pub(crate) version: Option<String>,
}

/// The server's answer to a take.
pub(crate) enum TakeReply {
    /// The grant number, and the slot of a permit.
    Granted(u64, Option<u32>),
    /// Another client holds the key, for this time at most; `None` if without an expiry.
    Busy(Option<Duration>),
}

impl Client {
    /// Opens both connections.
    pub(crate) async fn connect(
        connector: Connector,
        config: &RedisConfig,
        keeper_runtime: &KeeperRuntime,
    ) -> Result<(Self, Found)> {
        let keys = Keys::new(&config.namespace);
        let notifications = Arc::new(Notifications::new(keys.clone()));
        let deadlines = Deadlines::new(keeper_runtime.clone());
        let connector = Arc::new(connector);
        let options = |options, tracking, greeting| ConnectOptions {
            connector: Arc::clone(&connector),
            options,
            tracking,
            greeting,
            keeper_runtime: keeper_runtime.clone(),
            deadlines: deadlines.clone(),
        };
        let floor = FLOOR.call().key(&keys.counter());
        let client = Self {
            name: client_name(),
            command: connections(
                options(
                    with_push_handler(&notifications, Notifications::on_command_push),
                    Tracking::Asked,
                    Some(floor),
                ),
                KeeperRuntime::caller(),
            ),
            background: connections(
                options(
                    with_push_handler(&notifications, Notifications::on_background_push),
                    Tracking::All,
                    None,
                ),
                keeper_runtime.clone(),
            ),
            server_clock: ServerClock::new(Clock::Boot.now()),
            keys,
            notifications,
            deadlines,
        };
        let command = client.command()?.connection().await?;
        let connection = client.background.current()?.connection().await?;
        let looking = server_checks::check_eviction(connection.channel.redis.clone());
        if client
            .deadlines
            .timeout(REPLY_LIMIT, looking)
            .await
            .is_none()
        {
            let error = client.background.current()?.no_answer(REPLY_LIMIT);
            return Err(error.with_operation("connect"));
        }
        let pushes = command.pushes && connection.pushes;
        let found = Found {
            pushes,
            server: connector.server(),
            version: command.version.clone(),
        };
        Ok((client, found))
    }

    /// Returns the server's key of a lock.
    pub(crate) fn lock_key(&self, key: &LockKey) -> Vec<u8> {
        self.keys.lock(key)
    }

    /// Returns the command connection of the caller's runtime.
    pub(crate) fn command(&self) -> Result<Arc<SharedConnection>> {
        self.command.current()
    }

    /// Sends one take on `connection`.
    pub(crate) async fn take(
        &self,
        hold: &HoldId,
        command: &Arc<SharedConnection>,
        connection: &Arc<Connection>,
        asks: Asks,
        limit: Duration,
    ) -> Result<TakeReply> {
        let call = self.keys.take(hold, &self.name, asks);
        match command.call(connection, &call, limit).await? {
            Value::Int(grant @ 1..) => Ok(TakeReply::Granted(grant.unsigned_abs(), None)),
            Value::Array(answer) => match answer[..] {
                [Value::Int(grant @ 1..), Value::Int(slot)] => {
                    let slot = u32::try_from(slot).ok();
                    Ok(TakeReply::Granted(grant.unsigned_abs(), slot))
                }
                _ => Err(unexpected(&Value::Array(answer))),
            },
            // The encoding of `busy` in `foreign.lua`.
            Value::Int(-1) => Ok(TakeReply::Busy(None)),
            Value::Int(busy) => {
                let left = Duration::from_millis(busy.unsigned_abs().saturating_sub(2));
                Ok(TakeReply::Busy(Some(left)))
            }
            answer => Err(unexpected(&answer)),
        }
    }
}

/// Returns a random name. Two clients with one name, which is very unlikely, would share one place
/// in the queues.
fn client_name() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

fn connections(
    options: ConnectOptions,
    keeper_runtime: KeeperRuntime,
) -> PerRuntime<SharedConnection> {
    PerRuntime::new(keeper_runtime, move |runtime| {
        SharedConnection::new(options.clone(), runtime.clone())
    })
}

/// Returns options that call `on_push` for each message that the server pushes.
fn with_push_handler(
    notifications: &Arc<Notifications>,
    on_push: fn(&Notifications, &PushInfo),
) -> AsyncConnectionConfig {
    let notifications = Arc::clone(notifications);
    AsyncConnectionConfig::new().set_push_sender(move |push| {
        on_push(&notifications, &push);
        Ok::<(), std::convert::Infallible>(())
    })
}

pub(crate) fn unexpected(answer: &Value) -> Error {
    Error::new(
        ErrorKind::Backend,
        format!("unexpected answer {answer:?}: is this really a Redis server?"),
    )
    .with_backend(BACKEND)
}
