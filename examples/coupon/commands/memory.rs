//! The commands on keys in this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Command, Commands, Outcome, TimeToLive};
use crate::stage::problem::Problem;

/// A map that behaves like Redis: one command at a time, and keys that expire.
#[derive(Debug, Default)]
pub(crate) struct MemoryCommands {
    keys: Mutex<HashMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    value: String,
    expires: Option<Instant>,
}

#[async_trait]
impl Commands for MemoryCommands {
    async fn run(&self, command: Command) -> Result<Outcome, Problem> {
        Ok(self.execute(command))
    }
}

impl MemoryCommands {
    fn execute(&self, command: Command) -> Outcome {
        let now = Instant::now();
        // Every command leaves the map consistent, so a panic of another thread does not matter.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|_, entry| entry.expires.is_none_or(|expires| expires > now));
        match command {
            Command::SetNx { key, value, expiry } => {
                let free = !keys.contains_key(&key);
                if free {
                    let expires = expiry.map(|expiry| now + expiry);
                    keys.insert(key, Entry { value, expires });
                }
                Outcome::Changed(free)
            }
            Command::Expire { key, expiry } => match keys.get_mut(&key) {
                Some(entry) => {
                    entry.expires = Some(now + expiry);
                    Outcome::Changed(true)
                }
                None => Outcome::Changed(false),
            },
            Command::Get { key } => Outcome::Value(keys.get(&key).map(|entry| entry.value.clone())),
            Command::Del { key } => Outcome::Changed(keys.remove(&key).is_some()),
            Command::DelIfEqual { key, value } => {
                let equal = keys.get(&key).is_some_and(|entry| entry.value == value);
                Outcome::Changed(equal && keys.remove(&key).is_some())
            }
            Command::Ttl { key } => Outcome::Ttl(match keys.get(&key) {
                None => TimeToLive::Missing,
                Some(Entry { expires: None, .. }) => TimeToLive::ForEver,
                Some(Entry {
                    expires: Some(expires),
                    ..
                }) => TimeToLive::Left(*expires - now),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_key_is_set_once_until_it_is_deleted() -> Result<(), Problem> {
        let commands = MemoryCommands::default();
        assert_eq!(commands.ttl("k").await?, TimeToLive::Missing);
        assert!(commands.set_nx("k", "a", None).await?);
        assert!(!commands.set_nx("k", "b", None).await?);
        assert_eq!(commands.get("k").await?.as_deref(), Some("a"));
        assert_eq!(commands.ttl("k").await?, TimeToLive::ForEver);
        assert!(!commands.del_if_equal("k", "b").await?);
        assert!(commands.del_if_equal("k", "a").await?);
        assert!(!commands.del("k").await?);
        Ok(())
    }

    #[tokio::test]
    async fn an_expiry_frees_the_key() -> Result<(), Problem> {
        let commands = MemoryCommands::default();
        assert!(commands.set_nx("k", "a", None).await?);
        assert!(commands.expire("k", SOON).await?);
        assert!(matches!(commands.ttl("k").await?, TimeToLive::Left(left) if left <= SOON));
        tokio::time::sleep(SOON).await;
        assert_eq!(commands.get("k").await?, None);
        assert!(commands.set_nx("k", "b", Some(SOON)).await?);
        assert!(!commands.expire("other", SOON).await?);
        Ok(())
    }
}
