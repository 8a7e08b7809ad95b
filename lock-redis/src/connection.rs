//! An open connection.

use std::io;
use std::sync::atomic::AtomicBool;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};
use tokio::runtime::Handle;

use crate::batch::{Batches, Travels};
use crate::link::Tracking;
use crate::script::{Call, Channel, listening_next};
use crate::wire::Driver;

/// A connection to the server, shared by whoever has something to ask on it.
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    batches: Batches,
    /// Whether somebody asks it for a sign of life just now.
    pub(crate) probed: AtomicBool,
    /// Runs as long as anybody has the connection.
    _driver: Driver,
}

impl Connection {
    /// Sends from `runtime`, where `driver` runs.
    pub(crate) fn new(redis: MultiplexedConnection, driver: Driver, runtime: &Handle) -> Self {
        let channel = Channel::new(redis);
        Self {
            batches: Batches::start(runtime, channel.clone()),
            channel,
            probed: AtomicBool::new(false),
            _driver: driver,
        }
    }

    /// What is said on a new connection before anybody has it.
    pub(crate) async fn greet(
        &self,
        greeting: Option<&Call>,
        tracking: Tracking,
    ) -> RedisResult<()> {
        if let Some(call) = greeting {
            call.send(&self.channel).await?;
        }
        let mut requests = Pipeline::new();
        requests.cmd("CLIENT").arg("TRACKING").arg("ON");
        match tracking {
            Tracking::All => requests.arg("NOLOOP"),
            // Who may not listen is to learn that before the first wait; nothing is listened to yet.
            Tracking::Asked => requests
                .arg("OPTIN")
                .arg("NOLOOP")
                .add_command(listening_next())
                .cmd("PING"),
        };
        requests.exec_async(&mut self.channel.redis.clone()).await
    }

    /// Sends the call, perhaps together with others, and waits for its answer.
    pub(crate) async fn send(&self, call: &Call) -> RedisResult<Value> {
        if !call.goes_in_batches() {
            return call.send(&self.channel).await;
        }
        let _in_flight = match self.batches.join(call) {
            Travels::Alone(in_flight) => Some(in_flight),
            Travels::Together(answer) => match answer.await {
                Ok(Some(answer)) => return answer,
                Ok(None) => None,
                Err(_) => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            },
        };
        call.send(&self.channel).await
    }
}
