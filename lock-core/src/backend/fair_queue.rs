//! The order of a queue of claims, for all backends with a queue.

use crate::Mode;

/// Returns the earlier claim for which the claim at `index` waits; `None` if it may hold the key.
///
/// `modes` are the modes of all claims on the key in order of arrival, holders and waiters. Claims
/// are served in order: a claim waits for an earlier conflicting claim, even if that claim itself
/// waits, so no claim starves.
///
/// - [`Mode::Exclusive`] waits for the claim just before it.
/// - [`Mode::Upgradeable`] waits for the last earlier claim that is not shared.
/// - [`Mode::Shared`] waits for the last earlier claim that is neither shared nor upgradeable. It
///   also waits while an earlier upgradeable claim waits for another one.
/// - [`Mode::Permit`] waits for the last earlier claim that is no permit. If there is none, it
///   waits for the permit just before it while earlier permits use up its `of`, or while one of
///   them waits itself. So a permit with a greater `of` does not overtake one with a smaller `of`.
///   Check again when *any* earlier permit ends.
///
/// ```
/// use lock_core::backend::blocking_claim;
/// use lock_core::Mode;
///
/// let queue = [Mode::Shared, Mode::Shared, Mode::Exclusive, Mode::Shared];
/// assert_eq!(blocking_claim(&queue, 1), None);
/// assert_eq!(blocking_claim(&queue, 2), Some(1));
/// assert_eq!(blocking_claim(&queue, 3), Some(2));
/// ```
pub fn blocking_claim(modes: &[Mode], index: usize) -> Option<usize> {
    let (mode, earlier) = (modes[index], &modes[..index]);
    let conflicting = earlier
        .iter()
        .rposition(|other| mode.conflicts_with(*other));
    match mode {
        Mode::Permit { .. } if conflicting.is_none() => {
            let somebody_waits = (0..=index).any(|place| is_taken_up(modes[place], place));
            somebody_waits.then(|| index - 1)
        }
        Mode::Shared => {
            // The last upgradeable claim holds the key once the one before it has ended.
            let since = conflicting.map_or(0, |before| before + 1);
            let is_upgradeable = |place: &usize| modes[*place] == Mode::Upgradeable;
            let mut upgradeable = (since..index).rev().filter(is_upgradeable);
            upgradeable.nth(1).or(conflicting)
        }
        Mode::Exclusive | Mode::Upgradeable | Mode::Permit { .. } => conflicting,
    }
}

/// Returns true if the claims before `place` use up the limit of a permit.
fn is_taken_up(mode: Mode, place: usize) -> bool {
    matches!(mode, Mode::Permit { of } if place >= of.get() as usize)
}

/// Returns the number of claims at the head of a queue that hold the key together.
///
/// By the same rule as [`blocking_claim`]. No claim overtakes another, so all holders are at the
/// head.
pub fn holders(mut modes: impl Iterator<Item = Mode>) -> usize {
    let Some(first) = modes.next() else {
        return 0;
    };
    let mut has_upgradeable = first == Mode::Upgradeable;
    let others = modes.enumerate().take_while(|(others, mode)| {
        let is_second = has_upgradeable && *mode == Mode::Upgradeable;
        has_upgradeable |= *mode == Mode::Upgradeable;
        !mode.conflicts_with(first) && !is_second && !is_taken_up(*mode, others + 1)
    });
    1 + others.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit(of: u32) -> Mode {
        Mode::permit(of).unwrap()
    }

    #[test]
    fn each_permit_counts_against_its_own_limit() {
        let queue = [permit(2), permit(2), permit(2), permit(4)];
        assert_eq!(blocking_claim(&queue, 1), None);
        assert_eq!(blocking_claim(&queue, 2), Some(1));
        assert_eq!(blocking_claim(&[permit(2), permit(2), permit(4)], 2), None);
    }

    #[test]
    fn one_of_many_does_not_overtake_one_of_few() {
        let queue = [permit(2), permit(2), permit(2), permit(4)];
        assert_eq!(blocking_claim(&queue, 3), Some(2));
    }

    #[test]
    fn kinds_exclude_each_other() {
        assert_eq!(blocking_claim(&[permit(9), Mode::Shared], 1), Some(0));
        assert_eq!(blocking_claim(&[Mode::Shared, permit(9)], 1), Some(0));
        assert_eq!(blocking_claim(&[Mode::Exclusive, permit(9)], 1), Some(0));
    }

    #[test]
    fn whoever_waits_for_nobody_is_compatible() {
        let kinds = [
            Mode::Exclusive,
            Mode::Shared,
            Mode::Upgradeable,
            permit(1),
            permit(2),
            permit(3),
        ];
        for code in 0..kinds.len().pow(5) {
            let queue: Vec<Mode> = (0..5)
                .map(|place| kinds[code / kinds.len().pow(place) % kinds.len()])
                .collect();
            let free = |place: &usize| blocking_claim(&queue, *place).is_none();
            let holders = &queue[..(0..5).take_while(free).count()];
            assert_eq!(holders.len(), (0..5).filter(free).count(), "{queue:?}");
            assert_eq!(holders.len(), super::holders(queue.iter().copied()));
            assert!(!holders.is_empty(), "the head of {queue:?} waits");
            for (i, holder) in holders.iter().enumerate() {
                assert!(
                    holders[..i]
                        .iter()
                        .all(|other| !holder.conflicts_with(*other)),
                    "{queue:?}"
                );
                if let Mode::Permit { of } = holder {
                    assert!(i < of.get() as usize, "{queue:?}");
                }
            }
        }
    }
}
