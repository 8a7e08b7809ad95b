//! Detects two holders of one lock.

use std::sync::{Mutex, PoisonError};

use polylock::FencingToken;
use serde::{Deserialize, Serialize};

/// Number of bits in a token below the number of the grant.
const HAND_OFF_BITS: u32 = 14;

/// A watch over one key in one process: holds must not overlap, and tokens must grow.
#[derive(Debug)]
pub(crate) struct Referee {
    keeps_turns: bool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    inside: u32,
    last: u64,
    violations: u64,
    turns: Vec<Turn>,
}

/// One grant of the store, with all hand-offs of it within the process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Turn {
    first: u64,
    last: u64,
    entered: u64,
    left: u64,
}

impl Referee {
    /// Creates a referee for a single process.
    pub(crate) fn new() -> Self {
        Self {
            keeps_turns: false,
            seen: Mutex::default(),
        }
    }

    /// Creates a referee whose turns are [compared](violations_between) with those of other
    /// processes.
    pub(crate) fn among_processes() -> Self {
        Self {
            keeps_turns: true,
            ..Self::new()
        }
    }

    /// Notes a hold that began at `at`.
    pub(crate) fn enters(&self, token: FencingToken, at: u64) {
        let mut seen = self.seen();
        let token = token.value();
        if seen.inside > 0 || token <= seen.last {
            seen.violations += 1;
        }
        seen.inside += 1;
        seen.last = seen.last.max(token);
        if !self.keeps_turns {
            return;
        }
        let grant = token >> HAND_OFF_BITS;
        match seen.turns.last_mut() {
            Some(turn) if turn.last >> HAND_OFF_BITS == grant => turn.last = token,
            Some(_) | None => seen.turns.push(Turn {
                first: token,
                last: token,
                entered: at,
                left: u64::MAX,
            }),
        }
    }

    /// Notes that the holder is about to release the lock, at `at`.
    pub(crate) fn leaves(&self, at: u64) {
        let mut seen = self.seen();
        seen.inside = seen.inside.saturating_sub(1);
        if let Some(turn) = seen.turns.last_mut() {
            turn.left = at;
        }
    }

    pub(crate) fn violations(&self) -> u64 {
        self.seen().violations
    }

    /// Returns the number of violations and resets it.
    pub(crate) fn take_violations(&self) -> u64 {
        std::mem::take(&mut self.seen().violations)
    }

    /// Returns the turns and forgets them.
    pub(crate) fn take_turns(&self) -> Vec<Turn> {
        std::mem::take(&mut self.seen().turns)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how many turns began before a turn with a lower token had ended.
pub(crate) fn violations_between(mut turns: Vec<Turn>) -> u64 {
    turns.sort_unstable_by_key(|turn| turn.first);
    let overlap = |pair: &&[Turn]| pair[1].entered < pair[0].left || pair[1].first <= pair[0].last;
    turns.windows(2).filter(overlap).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(grant: u64) -> FencingToken {
        FencingToken::from_grant(grant).unwrap()
    }

    #[test]
    fn two_inside_or_a_token_that_does_not_grow_is_a_violation() {
        let referee = Referee::new();
        referee.enters(token(1), 10);
        referee.leaves(20);
        referee.enters(token(2), 30);
        assert_eq!(referee.violations(), 0);
        referee.enters(token(3), 40);
        assert_eq!(referee.violations(), 1);
        referee.leaves(50);
        referee.leaves(50);
        referee.enters(token(3), 60);
        assert_eq!(referee.violations(), 2);
    }

    #[test]
    fn turns_of_several_processes_may_not_overlap() {
        let [one, other] = [(); 2].map(|()| Referee::among_processes());
        let turn = |referee: &Referee, grant, from, until| {
            referee.enters(token(grant), from);
            referee.leaves(until);
        };
        turn(&one, 1, 10, 20);
        turn(&other, 2, 20, 30);
        turn(&one, 3, 30, 40);
        let all = || [one.seen().turns.clone(), other.seen().turns.clone()].concat();
        assert_eq!(violations_between(all()), 0);
        turn(&other, 4, 39, 50);
        assert_eq!(violations_between(all()), 1);
        // An earlier turn with a greater token.
        turn(&one, 5, 5, 8);
        assert_eq!(violations_between(all()), 2);
        assert_eq!(one.violations() + other.violations(), 0);
    }
}
