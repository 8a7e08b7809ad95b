//! An open connection.

use std::io;
use std::sync::atomic::AtomicBool;

use lock_core::Result;
use lock_core::backend::BatchSize;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};
use tokio::runtime::Handle;

use crate::commands::script::{Call, Channel, listening_next};
use crate::connection::batch::{Batches, Route};
use crate::connection::connect::Driver;
use crate::error::translate;
use crate::server_checks;

/// A connection to the server, shared by all that ask something on it.
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    batches: Batches,
    /// True if the server tells it of changes; some have no `CLIENT TRACKING`, or do not let us use
    /// it.
    pub(crate) pushes: bool,
    /// The version of the server, if it tells.
    pub(crate) version: Option<String>,
    /// True if it is being asked for a sign of life.
    pub(crate) probed: AtomicBool,
    /// Runs as long as the connection is in use.
    driver: Driver,
}

/// The keys of which the server tells a connection when another client changes them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tracking {
    /// All that were read on it.
    All,
    /// The keys that a [listening](crate::commands::script::Call::listening) call has read.
    Asked,
}

impl Connection {
    /// Sends from `runtime`, where `driver` runs.
    pub(crate) fn new(
        redis: MultiplexedConnection,
        driver: Driver,
        runtime: &Handle,
        batch_max: &BatchSize,
    ) -> Self {
        let channel = Channel::new(redis);
        Self {
            batches: Batches::start(runtime, channel.clone(), batch_max),
            channel,
            pushes: false,
            version: None,
            probed: AtomicBool::new(false),
            driver,
        }
    }

    /// Returns what is said on a new connection before it is used.
    pub(crate) async fn greet(
        &mut self,
        greeting: Option<&Call>,
        tracking: Tracking,
    ) -> Result<()> {
        if let Some(call) = greeting {
            self.version = server_checks::check(self.channel.redis.clone()).await?;
            call.send(&self.channel).await.map_err(translate)?;
        }
        self.pushes = self.track(tracking).await.map_err(translate)?;
        Ok(())
    }

    /// Has the server tell of changes. Answers whether it does.
    async fn track(&self, tracking: Tracking) -> RedisResult<bool> {
        let mut requests = Pipeline::new();
        requests.ignore_errors();
        requests.cmd("CLIENT").arg("TRACKING").arg("ON");
        match tracking {
            Tracking::All => requests.arg("NOLOOP"),
            // Whether we may listen shows before the first wait; nothing is listened to yet.
            Tracking::Asked => requests
                .arg("OPTIN")
                .arg("NOLOOP")
                .add_command(listening_next())
                .cmd("PING"),
        };
        let mut redis = self.channel.redis.clone();
        let answers: Vec<RedisResult<Value>> = requests.query_async(&mut redis).await?;
        let refused = answers.into_iter().find_map(RedisResult::err);
        if let Some(error) = &refused {
            tracing::debug!(%error, "redis tells of no changes; looking by ourselves");
        }
        Ok(refused.is_none())
    }

    /// Closes it so that what was sent on it, and is still on its way from here, never arrives.
    pub(crate) fn abort(&self) {
        self.driver.abort();
    }

    /// Sends the call, perhaps together with others, and waits for its answer.
    pub(crate) async fn send(&self, call: &Call) -> RedisResult<Value> {
        if !call.goes_in_batches() {
            return call.send(&self.channel).await;
        }
        let _in_flight = match self.batches.join(call) {
            Route::Direct(in_flight) => Some(in_flight),
            Route::Batched(answer) => match answer.await {
                Ok(Some(answer)) => return answer,
                Ok(None) => None,
                Err(_) => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            },
        };
        call.send(&self.channel).await
    }
}
