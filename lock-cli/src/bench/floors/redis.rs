//! The floor on Redis: `SET key owner NX PX ttl`, and the usual scripted compare-and-delete.

use polylock::redis::redis::{self, AsyncConnectionConfig, Client, Script, aio};

use super::was_not_free;
use crate::bench::store::Location;
use crate::problem::Problem;

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// An owner as long as those of polylock.
const OWNER: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct Floor {
    connection: aio::MultiplexedConnection,
    prefix: String,
}

pub(crate) struct RawLock {
    connection: aio::MultiplexedConnection,
    release: Script,
    key: String,
}

impl Floor {
    pub(super) async fn open(location: &Location) -> Result<Self, Problem> {
        let client = Client::open(location.url.as_str())?;
        // The driver's timer for each answer would add a cost.
        let settings = AsyncConnectionConfig::new().set_response_timeout(None);
        let opening = client.get_multiplexed_async_connection_with_config(&settings);
        let mut connection = opening.await?;
        let release = Script::new(RELEASE);
        release.prepare_invoke().load_async(&mut connection).await?;
        Ok(Self {
            connection,
            prefix: location.namespace(':'),
        })
    }

    pub(super) fn commands() -> Vec<String> {
        vec![
            "SET key owner NX PX 30000".to_owned(),
            format!("EVALSHA of \"{RELEASE}\" with key and owner"),
        ]
    }

    pub(super) fn lock(&self, key: &str) -> RawLock {
        RawLock {
            connection: self.connection.clone(),
            release: Script::new(RELEASE),
            key: format!("{}{key}", self.prefix),
        }
    }
}

impl RawLock {
    pub(super) async fn lock_and_release(&mut self) -> Result<(), Problem> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key)
            .arg(OWNER)
            .arg("NX")
            .arg("PX")
            .arg(30_000);
        let taken: Option<String> = set.query_async(&mut self.connection).await?;
        let mut release = self.release.key(&self.key);
        let released: i64 = release
            .arg(OWNER)
            .invoke_async(&mut self.connection)
            .await?;
        if taken.is_none() || released != 1 {
            return Err(was_not_free());
        }
        Ok(())
    }
}
