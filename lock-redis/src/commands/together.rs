//! Takes of several keys in one request.

use lock_core::Result;
use lock_core::backend::{Claim, StoreGrant};
use redis::{Cmd, RedisResult, Value};

use crate::client::{Client, REPLY_LIMIT, unexpected};
use crate::commands::calls::milliseconds;
use crate::commands::script::{Channel, TAKE_TOGETHER, is_unknown_script};
use crate::keys::owner_mark;

/// Maximum number of keys that one script takes.
const KEYS_MAX: usize = 256;

impl Client {
    /// Takes the keys of `claims`, all of them or none, on the connection of the caller's runtime, on
    /// which releases of the claims follow.
    pub(crate) async fn take_all(&self, claims: &mut [Claim]) -> Result<Option<Vec<StoreGrant>>> {
        if claims.len() > KEYS_MAX {
            return Ok(None);
        }
        let command = self.command()?;
        let connection = command.connection_within(REPLY_LIMIT).await?;
        let call = self.together(claims);
        let sent = claims.iter_mut().map(Claim::sending).min();
        let taking = call.send(&connection.channel);
        let first = match command.ask(&connection, taking, REPLY_LIMIT).await? {
            Value::Int(grant @ 1..) => grant.unsigned_abs(),
            Value::Int(0) => {
                claims.iter_mut().for_each(Claim::refused);
                return Ok(None);
            }
            answer => return Err(unexpected(&answer)),
        };
        let grants = (first..).zip(claims).filter_map(|(grant, claim)| {
            let ttl = claim.id().store_ttl();
            Some(StoreGrant {
                grant,
                sent: sent?,
                ttl,
            })
        });
        Ok(Some(grants.collect()))
    }

    fn together(&self, claims: &[Claim]) -> Together {
        let ids = || claims.iter().map(Claim::id);
        let locks = ids().map(|hold| self.keys.lock(hold.key()));
        let queues = ids().map(|hold| self.keys.waits(hold.key()));
        let keys = locks.chain(queues).chain([self.keys.counter()]);
        let mut parts: Vec<Vec<u8>> = keys.collect();
        let keys = parts.len();
        for hold in ids() {
            let ttl = milliseconds(hold.store_ttl());
            let arguments = [owner_mark(hold), ttl, hold.metadata()];
            parts.extend(arguments.map(String::into_bytes));
        }
        parts.push(self.name.clone().into_bytes());
        Together { keys, parts }
    }
}

/// The call of the script.
struct Together {
    keys: usize,
    /// The keys, then the arguments.
    parts: Vec<Vec<u8>>,
}

impl Together {
    async fn send(&self, channel: &Channel) -> RedisResult<Value> {
        let mut redis = channel.redis.clone();
        match self.command(channel).query_async(&mut redis).await {
            Err(error) if is_unknown_script(&error) => {
                channel.forget(&TAKE_TOGETHER);
                self.command(channel).query_async(&mut redis).await
            }
            answer => answer,
        }
    }

    fn command(&self, channel: &Channel) -> Cmd {
        let parts = self.parts.iter().map(Vec::as_slice);
        TAKE_TOGETHER.command(channel, self.keys, parts)
    }
}
