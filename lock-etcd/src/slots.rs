//! The slots of permits. A claim that is let in writes a free slot into its value, and reads all
//! claims in the same transaction.
//!
//! Invariant: no two holders have the same slot. Why: of two claims that write the same slot, the
//! second one sees that of the first, and writes another one. Breaks if: a claim counts on a slot
//! before it has read all claims after its own write.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};
use lock_core::Mode;
use lock_core::backend::{Clock, Moment};

use crate::claim_key::ClaimKey;
use crate::connection::shared_connection::{SharedConnection, transact};
use crate::error::{Failure, no_answer};
use crate::keys::end_of;
use crate::queue::{ListedClaim, QueueSnapshot, list_all};

/// The pause after which a claim looks for a slot again. Others have written one that they do not
/// keep.
const PAUSE: Duration = Duration::from_millis(5);

/// Chooses the slot of a granted claim with this create revision. Returns `None` if the claim is gone.
///
/// `known` are the claims that the answer to its take has listed.
pub(crate) async fn choose_slot(
    command: &Arc<SharedConnection>,
    claim_key: &ClaimKey,
    created: i64,
    known: Option<QueueSnapshot>,
    ends: Moment,
) -> Result<Option<u32>, Failure> {
    let (queue, key) = (claim_key.queue.as_str(), &*claim_key.key);
    let list = list_all(queue, key);
    let mut answer = known;
    loop {
        let claims = match answer.take() {
            Some(claims) => claims,
            None => send(command, &list, queue, ends).await?,
        };
        let Some(own) = claims.claim(created) else {
            return Ok(None);
        };
        let Some(slot) = claims.free_slot(own) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut value = claim_key.value.clone();
        value.slot = Some(slot);
        let put = PutOptions::new().with_ignore_lease();
        let list_now = || TxnOp::get(queue, Some(GetOptions::new().with_range(end_of(queue))));
        let write = Txn::new()
            .when([
                Compare::create_revision(key, CompareOp::Equal, created),
                Compare::mod_revision(key, CompareOp::Equal, own.modified),
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
        return Err(Failure::Unknown(no_answer(left)));
    }
    let sending = command.ask(left, |client| transact(client, transaction.clone()));
    QueueSnapshot::read(&sending.await?, queue, "").map_err(Failure::Unknown)
}

impl QueueSnapshot {
    /// Returns the slot that the granted claim `own` writes: a free one below its number. The lower
    /// ones are left to earlier claims without a slot, which may have a smaller number.
    ///
    /// `None` while claims have written slots that they do not keep.
    fn free_slot(&self, own: &ListedClaim) -> Option<u32> {
        let Mode::Permit { of } = own.mode else {
            return None;
        };
        // The claim that wrote a slot first keeps it.
        let mut keepers: HashMap<u32, &ListedClaim> = HashMap::new();
        for other in self.claims().filter(|other| other.created != own.created) {
            if let Some(slot) = other.slot {
                let keeper = keepers.entry(slot).or_insert(other);
                if other.modified < keeper.modified {
                    *keeper = other;
                }
            }
        }
        let has_none = |other: &&ListedClaim| {
            let kept = other.slot.and_then(|slot| keepers.get(&slot));
            kept.is_none_or(|keeper| keeper.created != other.created)
        };
        let earlier = self.claims().filter(|other| other.created < own.created);
        let without = earlier.filter(has_none).count();
        let mut free = (0..of.get()).filter(|slot| !keepers.contains_key(slot));
        free.nth(without)
    }

    /// Returns true if the claim with this create revision has this slot, and no other claim has it.
    fn has_slot_alone(&self, created: i64, slot: u32) -> bool {
        let mut with_slot = self.claims().filter(|claim| claim.slot == Some(slot));
        with_slot.next().is_some_and(|one| one.created == created) && with_slot.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit(of: u32) -> Mode {
        Mode::permit(of).unwrap()
    }

    fn free_slot(queue: &QueueSnapshot, created: i64) -> Option<u32> {
        queue.free_slot(queue.claim(created).unwrap())
    }

    #[test]
    fn lower_slots_are_left_to_earlier_claims() {
        let claims = [
            (1, "a", permit(5)),
            (2, "b", permit(2)),
            (3, "c", permit(5)),
        ];
        let mut queue = QueueSnapshot::of(3, &claims);
        queue.write_slot(1, 0);
        assert_eq!(free_slot(&queue, 3), Some(2));
        queue.write_slot(3, 2);
        assert_eq!(free_slot(&queue, 2), Some(1));
    }

    #[test]
    fn who_wrote_a_slot_second_is_without_one() {
        let claims = [
            (1, "a", permit(5)),
            (2, "b", permit(2)),
            (3, "c", permit(5)),
        ];
        let mut queue = QueueSnapshot::of(3, &claims);
        queue.write_slot(1, 0);
        assert!(queue.has_slot_alone(1, 0));
        queue.write_slot(2, 0);
        assert!(!queue.has_slot_alone(2, 0));
        assert_eq!(free_slot(&queue, 3), Some(2));
        assert_eq!(free_slot(&queue, 2), Some(1));
    }

    /// A granted claim: the claims that it knows, and its slot once it counts on it.
    struct Granted {
        created: i64,
        known: Option<QueueSnapshot>,
        slot: Option<u32>,
    }

    /// Claims with different numbers come, go, read the claims and write their slots in any order.
    #[test]
    fn slots_are_unique_and_below_their_number_in_any_order_of_steps() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut queue = QueueSnapshot::default();
            let mut granted: Vec<Granted> = Vec::new();
            let mut chosen = 0;
            for _ in 0..400 {
                if queue.claims().count() < 8 && random.u8(..) < 64 {
                    queue.enter(permit(random.u32(1..=5)));
                }
                let holders: Vec<i64> = queue.holders().map(|(created, _)| created).collect();
                for created in holders {
                    if !granted.iter().any(|one| one.created == created) {
                        granted.push(Granted {
                            created,
                            known: None,
                            slot: None,
                        });
                    }
                }
                if granted.is_empty() {
                    continue;
                }
                let index = random.usize(..granted.len());
                let one = &mut granted[index];
                if one.slot.is_some() {
                    queue.remove(&one.created.to_be_bytes(), i64::MAX);
                    granted.swap_remove(index);
                    continue;
                }
                let Some(known) = one.known.take() else {
                    one.known = Some(queue.clone());
                    continue;
                };
                let own = known.claim(one.created).unwrap();
                let Some(slot) = known.free_slot(own) else {
                    continue;
                };
                // Written only if the claim is as it was read.
                if queue.claim(one.created).unwrap().modified == own.modified {
                    queue.write_slot(one.created, slot);
                    if queue.has_slot_alone(one.created, slot) {
                        let Mode::Permit { of } = own.mode else {
                            panic!("{:?}", own.mode);
                        };
                        assert!(slot < of.get(), "seed {seed}");
                        one.slot = Some(slot);
                        chosen += 1;
                    }
                }
                let mut slots: Vec<u32> = granted.iter().filter_map(|one| one.slot).collect();
                slots.sort_unstable();
                let count = slots.len();
                slots.dedup();
                assert_eq!(slots.len(), count, "seed {seed}");
            }
            assert!(chosen > 20, "seed {seed}: {chosen}");
        }
    }
}
