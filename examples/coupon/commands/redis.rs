//! The commands on a real Redis server.

use std::time::Duration;

use async_trait::async_trait;
use polylock::redis::redis;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError};

use super::{Command, Commands, Outcome, TimeToLive};
use crate::stage::problem::Problem;

/// Timeout that is long enough for a machine that is busy with the rush.
const PATIENCE: Duration = Duration::from_secs(10);

const DEL_IF_EQUAL: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// A client that sends the commands over one connection.
pub(crate) struct RedisCommands {
    connection: MultiplexedConnection,
}

impl RedisCommands {
    /// Connects to the server of a lock URL, without the query, which only polylock understands.
    pub(crate) async fn connect(url: &str) -> Result<Self, Problem> {
        let address = url.split('?').next().unwrap_or(url);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = Client::open(address)?;
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(Self { connection })
    }
}

#[async_trait]
impl Commands for RedisCommands {
    async fn run(&self, command: Command) -> Result<Outcome, Problem> {
        let outcome = self.execute(command).await;
        outcome.map_err(|error| format!("a command failed on Redis: {error}").into())
    }
}

impl RedisCommands {
    async fn execute(&self, command: Command) -> Result<Outcome, RedisError> {
        let request = request(&command);
        let mut connection = self.connection.clone();
        Ok(match command {
            Command::SetNx { .. } => {
                let answer: Option<String> = request.query_async(&mut connection).await?;
                Outcome::Changed(answer.is_some())
            }
            Command::Expire { .. } | Command::Del { .. } | Command::DelIfEqual { .. } => {
                let keys: i64 = request.query_async(&mut connection).await?;
                Outcome::Changed(keys > 0)
            }
            Command::Get { .. } => Outcome::Value(request.query_async(&mut connection).await?),
            Command::Ttl { .. } => {
                let milliseconds: i64 = request.query_async(&mut connection).await?;
                Outcome::Ttl(match u64::try_from(milliseconds) {
                    Ok(left) => TimeToLive::Left(Duration::from_millis(left)),
                    // The server's codes: -2 for a missing key, -1 for a key without an expiry.
                    Err(_) if milliseconds == -1 => TimeToLive::ForEver,
                    Err(_) => TimeToLive::Missing,
                })
            }
        })
    }
}

fn request(command: &Command) -> redis::Cmd {
    let mut request = redis::Cmd::new();
    match command {
        Command::SetNx { key, value, expiry } => {
            request.arg("SET").arg(key).arg(value).arg("NX");
            if let Some(expiry) = expiry {
                request.arg("PX").arg(milliseconds(*expiry));
            }
        }
        Command::Expire { key, expiry } => {
            request.arg("PEXPIRE").arg(key).arg(milliseconds(*expiry));
        }
        Command::Get { key } => {
            request.arg("GET").arg(key);
        }
        Command::Del { key } => {
            request.arg("DEL").arg(key);
        }
        Command::DelIfEqual { key, value } => {
            request
                .arg("EVAL")
                .arg(DEL_IF_EQUAL)
                .arg(1)
                .arg(key)
                .arg(value);
        }
        Command::Ttl { key } => {
            request.arg("PTTL").arg(key);
        }
    }
    request
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
