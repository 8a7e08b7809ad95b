//! The queue of a lock: its claims in their order.

use lock_core::Mode;

use crate::paths::is_claim;

/// The marks between id and sequence number in the claims of known clients.
const MARKS: [&str; 3] = ["-lock-", "__lock__", "__rlock__"];

/// A claim on a lock, of a holder or a waiter.
struct QueuedClaim {
    name: String,
    mode: Mode,
    sequence: i32,
}

/// All claims on a lock, from one listing of the children of its node.
pub(crate) struct QueueListing {
    claims: Vec<QueuedClaim>,
    modes: Vec<Mode>,
}

impl QueueListing {
    pub(crate) fn new(children: Vec<String>) -> Self {
        let claims = claims_in_order(children);
        let modes = claims.iter().map(|queued| queued.mode).collect();
        Self { claims, modes }
    }

    /// Returns the index of the claim of this name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.claims.iter().position(|queued| queued.name == name)
    }

    /// Returns the name of the claim that begins with `prefix`.
    pub(crate) fn find(&self, prefix: &str) -> Option<&str> {
        let mut names = self.claims.iter().map(|queued| queued.name.as_str());
        names.find(|name| name.starts_with(prefix))
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        &self.claims[index].name
    }

    pub(crate) fn modes(&self) -> &[Mode] {
        &self.modes
    }

    pub(crate) fn len(&self) -> usize {
        self.claims.len()
    }

    /// Returns true if a claim of this library has such a name. Claims of Curator have, too.
    pub(crate) fn may_be_own(&self, index: usize) -> bool {
        let name = self.name(index);
        name.starts_with("_c_") && name.contains("-lock-")
    }

    /// Returns the names that no known client uses. They may be claims, or other nodes whose name
    /// ends in a number.
    pub(crate) fn unknown_names(&self) -> impl Iterator<Item = &str> {
        let names = self.claims.iter().map(|queued| queued.name.as_str());
        names.filter(|name| !MARKS.iter().any(|mark| name.contains(mark)))
    }
}

/// Returns the claims among `children` in the order of their sequence numbers. The numbers overflow
/// from 2^31 - 1 to -2^31, so they are compared by their distance from the first number.
fn claims_in_order(children: Vec<String>) -> Vec<QueuedClaim> {
    let mut queue: Vec<QueuedClaim> = children.into_iter().filter_map(queued).collect();
    let near = queue.first().map_or(0, |queued| queued.sequence);
    queue.sort_by_cached_key(|queued| {
        let distance = queued.sequence.wrapping_sub(near);
        (distance, queued.name.clone())
    });
    queue
}

fn queued(name: String) -> Option<QueuedClaim> {
    if !is_claim(&name) {
        return None;
    }
    Some(QueuedClaim {
        mode: mode_of(&name).unwrap_or(Mode::Exclusive),
        sequence: sequence_of(&name)?,
        name,
    })
}

/// Returns the mode of a claim of this library; `None` for other claims, which count as exclusive.
fn mode_of(name: &str) -> Option<Mode> {
    // The format: `_c_`, an id of 36 characters in groups, and then the mode.
    let rest = name.strip_prefix("_c_")?.get(36..)?;
    if rest.starts_with("-shared-lock-") {
        return Some(Mode::Shared);
    }
    let (of, _) = rest.strip_prefix("-permit-")?.split_once("-lock-")?;
    Mode::permit(of.parse().ok()?).ok()
}

/// Returns the sequence number of a claim: ten characters, or eleven for -10^9 and below.
pub(crate) fn sequence_of(name: &str) -> Option<i32> {
    let behind_mark = MARKS
        .iter()
        .filter_map(|mark| name.rfind(mark).map(|at| at + mark.len()))
        .max();
    if let Some(sequence) = behind_mark.and_then(|at| name.get(at..)?.parse().ok()) {
        return Some(sequence);
    }
    let last = |length: usize| name.get(name.len().checked_sub(length)?..)?.parse().ok();
    last(10).or_else(|| last(11))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: &str = "_c_0f0e0d0c-0b0a-0908-0706-050403020100";

    fn names(children: &[&str]) -> Vec<String> {
        let children = children.iter().map(|&child| child.to_owned()).collect();
        let queue = claims_in_order(children).into_iter();
        queue.map(|queued| queued.name).collect()
    }

    #[test]
    fn claims_of_all_clients_stand_in_one_line() {
        let curator = format!("{GUID}-lock-0000000007");
        let kazoo = "d64bc9a4f5c64f7f9a1f6f5c2c0b1234__lock__0000000003";
        let unknown = "somebody-0000000005";
        let queue = names(&[&curator, "nested", unknown, kazoo]);
        assert_eq!(queue, [kazoo, unknown, &curator]);
    }

    #[test]
    fn modes_are_read_from_our_names_only() {
        let mode = |tail: &str| queued(format!("{GUID}{tail}")).unwrap().mode;
        assert_eq!(mode("-lock-0000000001"), Mode::Exclusive);
        assert_eq!(mode("-shared-lock-0000000001"), Mode::Shared);
        assert_eq!(mode("-permit-3-lock-0000000001"), Mode::permit(3).unwrap());
        assert_eq!(mode("-permit-0-lock-0000000001"), Mode::Exclusive);
        assert_eq!(mode("-lease-0000000001"), Mode::Exclusive);
        let foreign = queued("x-shared-lock-0000000001".to_owned()).unwrap();
        assert_eq!(foreign.mode, Mode::Exclusive);
    }

    #[test]
    fn numbers_go_on_after_they_have_rolled_over() {
        let queue = [
            "x-lock-2147483646",
            "x-lock-2147483647",
            "x-lock--2147483648",
            "x-lock--2147483647",
        ];
        let mut mixed = queue;
        mixed.reverse();
        for _each_is_first in queue {
            assert_eq!(names(&mixed), queue, "of {mixed:?}");
            mixed.rotate_left(1);
        }
        assert_eq!(sequence_of("x-lock--000000005"), Some(-5));
        assert_eq!(sequence_of("x__lock__-1000000000"), Some(-1_000_000_000));
        assert_eq!(sequence_of("x-1000000000"), Some(1_000_000_000));
        assert_eq!(sequence_of("x-2147483648"), Some(i32::MIN));
        assert_eq!(sequence_of("x2999999999"), None);
    }
}
