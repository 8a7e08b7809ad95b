//! The holders of a key, from the list of its claims.

use std::sync::Arc;

use etcd_client::{GetOptions, KeyValue};
use lock_core::backend::holders;
use lock_core::{HolderInfo, KeyInfo, LockKey, Mode, Result};

use crate::claim::value::ClaimValue;
use crate::client::Client;
use crate::connection::shared_connection::{ANSWER_MAX, REPLY_LIMIT};
use crate::keys::{end_of, is_own_name};

impl Client {
    /// Lists the claims on `key` by a read that the members agree on.
    pub(crate) async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        let queue = self.keys.queue(key);
        let list = |client: Arc<etcd_client::Client>| {
            let queue = queue.as_str();
            async move {
                let below = GetOptions::new().with_range(end_of(queue));
                let mut client = client.kv_client().max_decoding_message_size(ANSWER_MAX);
                client.get(queue, Some(below)).await
            }
        };
        let answer = self.command()?.ask(REPLY_LIMIT, list).await?;
        Ok(read(answer.kvs(), queue.as_bytes()))
    }
}

/// Reads who holds the key of `queue` from its claims.
fn read(found: &[KeyValue], queue: &[u8]) -> KeyInfo {
    let claims = found.iter().filter_map(|found| {
        let claim = claim(found.key().strip_prefix(queue)?, found)?;
        Some((found.create_revision(), claim))
    });
    let mut claims: Vec<(i64, (Mode, HolderInfo))> = claims.collect();
    claims.sort_unstable_by_key(|(created, _)| *created);
    let holding = holders(claims.iter().map(|(_, (mode, _))| *mode));
    let waiters = claims.len() - holding;
    claims.truncate(holding);
    let holders = claims.into_iter().map(|(_, (_, holder))| holder);
    KeyInfo::new(holders.collect()).with_waiters(waiters)
}

/// Reads the claim of this name below its queue; `None` for a key of another lock.
fn claim(name: &[u8], found: &KeyValue) -> Option<(Mode, HolderInfo)> {
    let name = std::str::from_utf8(name).ok()?;
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let value = ClaimValue::read(name.as_bytes(), found.value());
    let mode = value.mode;
    if !is_own_name(name) {
        return Some((mode, HolderInfo::foreign()));
    }
    let grant = u64::try_from(found.create_revision()).unwrap_or_default();
    let holder = HolderInfo::new()
        .with_mode(mode)
        .with_metadata(value.metadata());
    // A hold that changed its mode has a later token, which only its client knows.
    let holder = match value.converted {
        Some(_) => holder,
        None => holder.with_grant(grant),
    };
    Some((mode, holder))
}
