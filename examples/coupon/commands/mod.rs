//! The few Redis commands that the flawed locks use.

mod memory;
#[cfg(feature = "redis")]
mod redis;
mod remote;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(crate) use memory::MemoryCommands;
pub(crate) use remote::RemoteCommands;

use crate::coupon::client::Client;
use crate::stage::locks::scheme;
use crate::stage::problem::Problem;

/// One command on a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    SetNx {
        key: String,
        value: String,
        expiry: Option<Duration>,
    },
    Expire {
        key: String,
        expiry: Duration,
    },
    Get {
        key: String,
    },
    Del {
        key: String,
    },
    /// Compares and deletes in one step, by a script on Redis.
    DelIfEqual {
        key: String,
        value: String,
    },
    Ttl {
        key: String,
    },
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// True if the command changed the key.
    Changed(bool),
    Value(Option<String>),
    Ttl(TimeToLive),
}

/// The remaining life of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TimeToLive {
    Missing,
    ForEver,
    Left(Duration),
}

/// A place that executes commands. An implementation provides `run`; callers use the other methods.
#[async_trait]
pub(crate) trait Commands: Send + Sync {
    async fn run(&self, command: Command) -> Result<Outcome, Problem>;

    /// Sets a key unless it exists; returns true if it was set.
    async fn set_nx(
        &self,
        key: &str,
        value: &str,
        expiry: Option<Duration>,
    ) -> Result<bool, Problem> {
        let (key, value) = (key.to_owned(), value.to_owned());
        let command = Command::SetNx { key, value, expiry };
        changed(self.run(command).await?)
    }

    /// Sets the expiry of a key; returns true if the key existed.
    async fn expire(&self, key: &str, expiry: Duration) -> Result<bool, Problem> {
        let key = key.to_owned();
        changed(self.run(Command::Expire { key, expiry }).await?)
    }

    async fn get(&self, key: &str) -> Result<Option<String>, Problem> {
        let key = key.to_owned();
        match self.run(Command::Get { key }).await? {
            Outcome::Value(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a key; returns true if it existed.
    async fn del(&self, key: &str) -> Result<bool, Problem> {
        let key = key.to_owned();
        changed(self.run(Command::Del { key }).await?)
    }

    /// Deletes a key if it has this value, in one step; returns true if it had.
    async fn del_if_equal(&self, key: &str, value: &str) -> Result<bool, Problem> {
        let (key, value) = (key.to_owned(), value.to_owned());
        changed(self.run(Command::DelIfEqual { key, value }).await?)
    }

    async fn ttl(&self, key: &str) -> Result<TimeToLive, Problem> {
        let key = key.to_owned();
        match self.run(Command::Ttl { key }).await? {
            Outcome::Ttl(ttl) => Ok(ttl),
            other => Err(unexpected(&other)),
        }
    }
}

/// Connects to the Redis at `url`, or to the keys of the headquarters for any other store.
pub(crate) async fn connect(
    url: &str,
    headquarters: &Client,
) -> Result<Arc<dyn Commands>, Problem> {
    match scheme(url).as_str() {
        #[cfg(feature = "redis")]
        "redis" | "rediss" => Ok(Arc::new(redis::RedisCommands::connect(url).await?)),
        _ => Ok(Arc::new(RemoteCommands::of(headquarters.clone()))),
    }
}

fn changed(outcome: Outcome) -> Result<bool, Problem> {
    match outcome {
        Outcome::Changed(changed) => Ok(changed),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(outcome: &Outcome) -> Problem {
    format!("a command gave an answer to another one: {outcome:?}").into()
}
