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

/// An open connection to the server, shared by many requests.
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    batches: Batches,
    /// True if the server pushes changes. Some servers lack `CLIENT TRACKING` or deny it.
    pub(crate) pushes: bool,
    /// The server's version, if it reports one.
    pub(crate) version: Option<String>,
    /// True while a probe of this connection is pending.
    pub(crate) probed: AtomicBool,
    /// Runs the connection's I/O until it is dropped.
    driver: Driver,
}

/// The keys whose changes by other connections the server pushes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tracking {
    /// All keys that were read on the connection.
    All,
    /// The keys that a [listening](crate::commands::script::Call::listening) call has read.
    Asked,
}

impl Connection {
    /// Creates a connection that sends from `runtime`, where `driver` runs.
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

    /// Sends the first requests of a new connection: checks, `greeting` and tracking.
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

    /// Enables tracking; returns true if the server supports it.
    async fn track(&self, tracking: Tracking) -> RedisResult<bool> {
        let mut requests = Pipeline::new();
        requests.ignore_errors();
        requests.cmd("CLIENT").arg("TRACKING").arg("ON");
        match tracking {
            Tracking::All => requests.arg("NOLOOP"),
            // `CLIENT CACHING` shows whether tracking works before the first wait; `PING` tracks no
            // key.
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
            tracing::debug!(%error, "redis: client-side caching is not available, polling held keys");
        }
        Ok(refused.is_none())
    }

    /// Closes the connection so that data still on this machine never arrives.
    pub(crate) fn abort(&self) {
        self.driver.abort();
    }

    /// Sends the call, alone or in a batch, and waits for its answer.
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
