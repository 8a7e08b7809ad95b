//! The slots of permits, for stores on which each claim writes its own slot.

use std::collections::HashMap;

/// The slot that a permit has written into its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenSlot {
    /// The slot, from 0.
    pub slot: u32,
    /// When it was written, in the order of the store, such as a revision.
    pub written: i64,
}

/// Returns the slot that the permit at `index` of a queue writes: a free one below its number `of`.
/// `None` while claims have written slots that they do not keep: look again.
///
/// `slots` are the slots that all claims on the key have written, in their order of arrival. By the
/// rule of [`blocking_claim`](crate::backend::blocking_claim), fewer than `of` claims come before the
/// permit.
///
/// A claim that is let in reads the claims, writes the slot, and reads the claims again. It has the
/// slot if it then [keeps](keeps_slot) it, and else writes another one. The first claim of a queue
/// has slot 0 without a write. Lower slots are left to earlier claims without a slot, whose number
/// may be smaller.
///
/// ```
/// use lock_core::backend::{WrittenSlot, free_slot, keeps_slot};
///
/// let first = WrittenSlot { slot: 0, written: 7 };
/// let mut slots = vec![Some(first), None, None];
/// assert_eq!(free_slot(&slots, 1, 3), Some(1));
/// assert_eq!(free_slot(&slots, 2, 3), Some(2));
/// slots[2] = Some(WrittenSlot { slot: 2, written: 8 });
/// assert!(keeps_slot(&slots, 2));
/// ```
pub fn free_slot(slots: &[Option<WrittenSlot>], index: usize, of: u32) -> Option<u32> {
    let mut keepers: HashMap<u32, (i64, usize)> = HashMap::new();
    for (other, written) in written(slots).filter(|(other, _)| *other != index) {
        let keeper = keepers
            .entry(written.slot)
            .or_insert((written.written, other));
        *keeper = (*keeper).min((written.written, other));
    }
    let has_none = |other: &usize| {
        let kept = slots[*other].and_then(|written| keepers.get(&written.slot));
        kept.is_none_or(|(_, keeper)| keeper != other)
    };
    let without = (0..index).filter(has_none).count();
    let mut free = (0..of).filter(|slot| !keepers.contains_key(slot));
    free.nth(without)
}

/// Returns true if the claim at `index` has the slot that it has written: no other claim wrote the
/// same slot before.
pub fn keeps_slot(slots: &[Option<WrittenSlot>], index: usize) -> bool {
    slots[index].is_some_and(|own| {
        let mut others = written(slots).filter(|(other, _)| *other != index);
        !others.any(|(_, other)| other.slot == own.slot && other.written < own.written)
    })
}

fn written(slots: &[Option<WrittenSlot>]) -> impl Iterator<Item = (usize, WrittenSlot)> {
    let slots = slots.iter().enumerate();
    slots.filter_map(|(index, slot)| Some((index, (*slot)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::backend::fair_queue::holders;

    fn slots(written: &[Option<u32>]) -> Vec<Option<WrittenSlot>> {
        let slot =
            |(written, slot): (i64, &Option<u32>)| slot.map(|slot| WrittenSlot { slot, written });
        (0..).zip(written).map(slot).collect()
    }

    #[test]
    fn lower_slots_are_left_to_earlier_claims() {
        assert_eq!(free_slot(&slots(&[Some(0), None, None]), 2, 5), Some(2));
        assert_eq!(free_slot(&slots(&[Some(0), None, Some(2)]), 1, 2), Some(1));
        assert_eq!(free_slot(&slots(&[None, Some(2)]), 0, 1), Some(0));
    }

    #[test]
    fn who_wrote_a_slot_second_does_not_keep_it() {
        let slots = slots(&[Some(0), Some(0), None]);
        assert!(keeps_slot(&slots, 0) && !keeps_slot(&slots, 1) && !keeps_slot(&slots, 2));
        assert_eq!(free_slot(&slots, 1, 2), Some(1));
        assert_eq!(free_slot(&slots, 2, 5), Some(2));
    }

    #[derive(Clone, Copy)]
    struct Permit {
        number: u64,
        of: u32,
        written: Option<WrittenSlot>,
    }

    /// A permit that was let in.
    struct Granted {
        number: u64,
        known: Option<Vec<Permit>>,
        slot: Option<u32>,
    }

    fn written_by(queue: &[Permit]) -> Vec<Option<WrittenSlot>> {
        queue.iter().map(|permit| permit.written).collect()
    }

    fn place(queue: &[Permit], number: u64) -> usize {
        let place = queue.iter().position(|permit| permit.number == number);
        place.expect("it is there until it is released")
    }

    /// Permits of different numbers come, go, read the claims and write their slots in any order.
    #[test]
    fn slots_are_unique_and_below_their_number_in_any_order_of_steps() {
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut queue, mut granted) = (Vec::<Permit>::new(), Vec::<Granted>::new());
            let (mut numbers, mut chosen) = (0, 0);
            for now in 0..400 {
                if queue.len() < 8 && random.u8(..) < 64 {
                    numbers += 1;
                    queue.push(Permit {
                        number: numbers,
                        of: random.u32(1..=5),
                        written: None,
                    });
                }
                let modes = queue.iter().map(|one| Mode::permit(one.of).unwrap());
                for permit in &queue[..holders(modes)] {
                    if !granted.iter().any(|one| one.number == permit.number) {
                        granted.push(Granted {
                            number: permit.number,
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
                let at = place(&queue, one.number);
                if one.slot.is_some() {
                    queue.remove(at);
                    granted.swap_remove(index);
                } else if at == 0 && queue[0].written.is_none() {
                    (one.slot, chosen) = (Some(0), chosen + 1);
                } else if let Some(known) = one.known.take() {
                    let of = queue[at].of;
                    let seen = place(&known, one.number);
                    if let Some(slot) = free_slot(&written_by(&known), seen, of) {
                        queue[at].written = Some(WrittenSlot { slot, written: now });
                        if keeps_slot(&written_by(&queue), at) {
                            assert!(slot < of, "seed {seed}");
                            (one.slot, chosen) = (Some(slot), chosen + 1);
                        }
                    }
                } else {
                    one.known = Some(queue.clone());
                }
                let mut slots: Vec<u32> = granted.iter().filter_map(|one| one.slot).collect();
                slots.sort_unstable();
                assert!(
                    slots.is_sorted_by(|one, next| one < next),
                    "seed {seed}: {slots:?}"
                );
            }
            assert!(chosen > 20, "seed {seed}: {chosen}");
        }
    }
}
