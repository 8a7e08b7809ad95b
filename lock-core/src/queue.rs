//! Who waits for whom in a queue of claims: the one rule of all backends that keep a queue.

use crate::Mode;

/// Which earlier claim the claim at `index` still waits for; `None` when it may hold the key.
///
/// `modes` are the modes of all claims on the key in order of arrival, holders and waiters alike:
/// whoever waits for nobody holds the key. Claims are served in order: one that conflicts with an
/// earlier claim waits for it, even while that one only waits itself, so nobody starves.
///
/// - [`Mode::Exclusive`] waits for the claim just before it.
/// - [`Mode::Shared`] waits for the last earlier claim that is not shared.
/// - [`Mode::Permit`] waits for the last earlier claim that is no permit, and otherwise for the
///   permit just before it while its `of` are taken by earlier ones. It has to look again when
///   *any* of the earlier permits goes.
///
/// ```
/// use lock_core::{Mode, blocker};
///
/// let queue = [Mode::Shared, Mode::Shared, Mode::Exclusive, Mode::Shared];
/// assert_eq!(blocker(&queue, 1), None);
/// assert_eq!(blocker(&queue, 2), Some(1));
/// assert_eq!(blocker(&queue, 3), Some(2));
/// ```
pub fn blocker(modes: &[Mode], index: usize) -> Option<usize> {
    let (mode, earlier) = (modes[index], &modes[..index]);
    let conflicting = earlier
        .iter()
        .rposition(|other| mode.conflicts_with(*other));
    match mode {
        Mode::Permit { of } if conflicting.is_none() && earlier.len() >= of.get() as usize => {
            Some(index - 1)
        }
        Mode::Exclusive | Mode::Shared | Mode::Permit { .. } => conflicting,
    }
}

/// For each claim of a queue whether it may hold the key: the same rule, for all of them in one
/// pass.
pub(crate) fn admitted(modes: impl Iterator<Item = Mode>) -> impl Iterator<Item = bool> {
    let (mut exclusive, mut shared, mut permits) = (0, 0, 0);
    modes.map(move |mode| match mode {
        Mode::Exclusive => {
            exclusive += 1;
            exclusive + shared + permits == 1
        }
        Mode::Shared => {
            shared += 1;
            exclusive + permits == 0
        }
        Mode::Permit { of } => {
            permits += 1;
            exclusive + shared == 0 && permits <= of.get()
        }
    })
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
        assert_eq!(blocker(&queue, 1), None);
        assert_eq!(blocker(&queue, 2), Some(1));
        assert_eq!(blocker(&queue, 3), None);
    }

    #[test]
    fn kinds_exclude_each_other() {
        assert_eq!(blocker(&[permit(9), Mode::Shared], 1), Some(0));
        assert_eq!(blocker(&[Mode::Shared, permit(9)], 1), Some(0));
        assert_eq!(blocker(&[Mode::Exclusive, permit(9)], 1), Some(0));
    }

    /// Whatever the queue, the claims that wait for nobody may all hold the key together.
    #[test]
    fn whoever_waits_for_nobody_is_compatible() {
        let kinds = [
            Mode::Exclusive,
            Mode::Shared,
            permit(1),
            permit(2),
            permit(3),
        ];
        for code in 0..kinds.len().pow(5) {
            let queue: Vec<Mode> = (0..5)
                .map(|place| kinds[code / kinds.len().pow(place) % 5])
                .collect();
            let holders: Vec<Mode> = (0..5)
                .filter(|i| blocker(&queue, *i).is_none())
                .map(|i| queue[i])
                .collect();
            let admitted: Vec<bool> = admitted(queue.iter().copied()).collect();
            let free: Vec<bool> = (0..5).map(|i| blocker(&queue, i).is_none()).collect();
            assert_eq!(admitted, free, "{queue:?}");
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
