//! The slots of permits. A claim that is let in writes a free slot into its value, and reads all
//! claims in the same transaction.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};
use lock_core::Mode;
use lock_core::backend::{Clock, Moment, free_slot};

use crate::claim::key::ClaimKey;
use crate::connection::shared_connection::{REPLY_LIMIT, SharedConnection, transact};
use crate::error::{Failure, no_answer};
use crate::keys::end_of;
use crate::queue::{QueueSnapshot, list_all};

/// The pause after which a claim looks for a slot again. Others have written one that they do not
/// keep.
const PAUSE: Duration = Duration::from_millis(5);

/// Chooses the slot of a granted claim with this create revision. Returns `None` if the claim is gone.
///
/// `known` are the claims up to this one, as far as the answer to its take has listed them.
pub(crate) async fn choose_slot(
    command: &Arc<SharedConnection>,
    claim_key: &ClaimKey,
    created: i64,
    known: Option<QueueSnapshot>,
    ends: Moment,
) -> Result<Option<u32>, Failure> {
    let Mode::Permit { of } = claim_key.mode else {
        return Ok(None);
    };
    let (queue, key) = (claim_key.queue.as_str(), &*claim_key.key);
    let list = list_all(queue, key);
    let mut answer = known;
    loop {
        let claims = match answer.take() {
            Some(claims) => claims,
            None => send(command, &list, queue, ends).await?,
        };
        let (Some(index), slots) = (claims.index(created), claims.slots()) else {
            return Ok(None);
        };
        if index == 0 && slots[0].is_none() {
            return Ok(Some(0));
        }
        let Some(slot) = free_slot(&slots, index, of.get()) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut value = claim_key.value.clone();
        value.slot = Some(slot);
        let put = PutOptions::new().with_ignore_lease();
        let list_now = || TxnOp::get(queue, Some(GetOptions::new().with_range(end_of(queue))));
        let modified = claims.claim(created).map_or(0, |own| own.modified);
        let write = Txn::new()
            .when([
                Compare::create_revision(key, CompareOp::Equal, created),
                Compare::mod_revision(key, CompareOp::Equal, modified),
            ])
            .and_then([TxnOp::put(key, value.to_text(), Some(put)), list_now()])
            .or_else([list_now()]);
        let claims = send(command, &write, queue, ends).await?;
        if claims.has_slot_alone(created, slot) {
            return Ok(Some(slot));
        }
        answer = Some(claims);
    }
}

async fn send(
    command: &Arc<SharedConnection>,
    transaction: &Txn,
    queue: &str,
    ends: Moment,
) -> Result<QueueSnapshot, Failure> {
    let left = ends.since(Clock::Boot.now());
    if left.is_zero() {
        return Err(Failure::Unknown(no_answer(REPLY_LIMIT)));
    }
    let sending = command.ask(left, |client| transact(client, transaction.clone()));
    QueueSnapshot::read(&sending.await?, queue, "").map_err(Failure::Unknown)
}
