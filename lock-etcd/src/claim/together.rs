//! Takes of several keys in one transaction.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use lock_core::Result;
use lock_core::backend::{Claim, Clock, Detached, StoreGrant};

use crate::claim::key::ClaimKey;
use crate::client::Client;
use crate::connection::shared_connection::{REPLY_LIMIT, transact};
use crate::error::{Failure, no_answer, unexpected};
use crate::keys::end_of;
use crate::lease::migrate::follow;
use crate::queue::revision;

/// Maximum number of keys in one transaction; servers allow 128 operations by default
/// (`--max-txn-ops`).
const KEYS_MAX: usize = 100;

/// A claim with the lease under which its key is created.
type Leased = (Arc<ClaimKey>, i64);

impl Client {
    /// Takes the keys of `claims` if the queues of all are empty.
    ///
    /// Like a single take, a transaction that has begun is always finished.
    pub(crate) async fn take_all(&self, claims: &mut [Claim]) -> Result<Option<Vec<StoreGrant>>> {
        if claims.len() > KEYS_MAX {
            return Ok(None);
        }
        let (command, ends) = (self.command()?, Clock::Boot.now().plus(REPLY_LIMIT));
        let left = || ends.since(Clock::Boot.now());
        let mut keys: Vec<Leased> = Vec::with_capacity(claims.len());
        for claim in claims.iter_mut() {
            // Before the claim is registered, so that it is released even if the caller is dropped.
            claim.sending();
            let entered = command.within(left(), self.enter_claim(claim)).await;
            let claim_key = entered.unwrap_or_else(|| Err(no_answer(REPLY_LIMIT)))?;
            let lease = claim_key.lease.id();
            keys.push((claim_key, lease));
        }
        let (connection, asked) = (Arc::clone(&command), keys.clone());
        let asking = Detached::new(command.runtime(), async move {
            let under_way: Vec<_> = asked.iter().map(|(one, _)| one.begin()).collect();
            let take = transaction(&asked);
            let sending = |client| transact(client, take.clone());
            let in_doubt = || asked.iter().for_each(|(one, _)| one.mark_in_doubt());
            let outcome = connection.ask_noting(REPLY_LIMIT, sending, in_doubt).await;
            under_way.into_iter().for_each(|one| one.ended());
            outcome
        });
        let created = match asking.await {
            Ok(answer) if answer.succeeded() => revision(&answer)?,
            Ok(_) | Err(Failure::LeaseMissing(_) | Failure::TooLarge(_)) => {
                return Ok(self.give_up(claims, &keys));
            }
            Err(failure) => return Err(failure.into()),
        };
        let grant = u64::try_from(created).map_err(|_| unexpected("a revision below zero"))?;
        let mut grants = Vec::with_capacity(claims.len());
        for ((claim_key, lease), claim) in keys.iter().zip(claims) {
            claim_key.lease.may_read(&claim_key.queue);
            if claim_key.lease.id() != *lease {
                follow(&command, claim_key, *lease, ends).await?;
            }
            let (sent, ttl) = claim_key.lease.fresh(claim.id().min_hold()).await?;
            claim_key.granted(created);
            grants.push(StoreGrant { grant, sent, ttl });
        }
        Ok(Some(grants))
    }

    /// Forgets the claims, none of which was created, unless a repeated request may still arrive.
    fn give_up(&self, claims: &mut [Claim], keys: &[Leased]) -> Option<Vec<StoreGrant>> {
        for (claim, (claim_key, _)) in claims.iter_mut().zip(keys) {
            if !claim_key.is_in_doubt() {
                self.leave(claim.id().claim());
                claim.refused();
            }
        }
        None
    }
}

/// Builds the transaction that creates all keys if their queues are empty.
fn transaction(keys: &[Leased]) -> Txn {
    let is_empty = |(claim_key, _): &Leased| {
        let queue = claim_key.queue.as_str();
        Compare::create_revision(queue, CompareOp::Equal, 0).with_range(end_of(queue))
    };
    let put = |(claim_key, lease): &Leased| {
        let options = PutOptions::new().with_lease(*lease);
        TxnOp::put(&*claim_key.key, claim_key.value.to_text(), Some(options))
    };
    Txn::new()
        .when(keys.iter().map(is_empty).collect::<Vec<_>>())
        .and_then(keys.iter().map(put).collect::<Vec<_>>())
}
