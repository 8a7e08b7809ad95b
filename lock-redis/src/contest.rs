//! Whether other clients want a key that is waited for here.

use std::time::Duration;

use lock_core::Moment;

/// How many waiters of one client follow each other before others have a chance. With 4 the key is free as much of the
/// time as where a client hands its locks on.
const FOLLOWERS_MAX: u32 = 4;

/// For how long they do at most, and how soon a release counts as coming soon: where a turn takes longer, a round trip
/// makes no difference.
pub(crate) const FOLLOWING_MAX: Duration = Duration::from_millis(5);

/// How long a sign of others counts.
const RECENT: Duration = Duration::from_millis(100);

/// What the first in line does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Next {
    /// It asks, and again when it is told that the key has changed.
    #[default]
    Asks,
    /// It asks right behind a release of its own client, which saves a round trip and keeps all others out.
    Follows,
    /// It does nothing before its own client gives the key back, which is to come soon.
    Awaits,
}

/// What is known of other clients that want a key.
///
/// As long as there are none, waiters follow each other. Now and then one awaits the end of the release before it, which
/// is when others hear of it. Those who get in are noticed, since their changes of the key are told, and nobody follows
/// or awaits any more until they are gone.
#[derive(Debug, Default)]
pub(crate) struct Contest {
    /// When another client changed the key.
    seen: Option<Moment>,
    /// When others had a chance; none yet of a key that has only begun to be waited for.
    open: Option<Moment>,
    followers: u32,
}

impl Contest {
    /// Another client has changed the key.
    pub(crate) fn note(&mut self, now: Moment) {
        self.seen = Some(now);
    }

    /// Whether others want the key, as far as we know.
    pub(crate) fn is_on(&self, now: Moment) -> bool {
        self.seen.is_some_and(|seen| now.since(seen) < RECENT)
    }

    /// What the first in line does about a release that is sent `now`.
    pub(crate) fn at_release(&mut self, now: Moment) -> Next {
        if self.is_on(now) {
            return Next::Asks;
        }
        let was_open = self
            .open
            .is_some_and(|open| now.since(open) < FOLLOWING_MAX);
        if was_open && self.followers < FOLLOWERS_MAX {
            self.followers += 1;
            return Next::Follows;
        }
        self.open = Some(now);
        self.followers = 0;
        Next::Awaits
    }
}

#[cfg(test)]
mod tests {
    use lock_core::Clock;

    use super::*;

    const TURN: Duration = Duration::from_micros(100);

    /// What so many waiters do, one after the other.
    fn turns(contest: &mut Contest, now: &mut Moment, turns: usize, turn: Duration) -> Vec<Next> {
        let next = |_| {
            *now = now.plus(turn);
            contest.at_release(*now)
        };
        (0..turns).map(next).collect()
    }

    #[test]
    fn others_have_a_chance_every_now_and_then() {
        let (mut contest, mut now) = (Contest::default(), Clock::Boot.now());
        let one = [
            Next::Awaits,
            Next::Follows,
            Next::Follows,
            Next::Follows,
            Next::Follows,
        ];
        let quick = turns(&mut contest, &mut now, 15, TURN);
        assert_eq!(quick, one.repeat(3));
        let slow = turns(&mut contest, &mut now, 5, FOLLOWING_MAX);
        assert_eq!(slow, [Next::Awaits; 5]);
    }

    #[test]
    fn nobody_follows_while_others_want_the_key() {
        let (mut contest, mut now) = (Contest::default(), Clock::Boot.now());
        turns(&mut contest, &mut now, 2, TURN);
        contest.note(now);
        let contested = turns(&mut contest, &mut now, 900, TURN);
        assert_eq!(contested, [Next::Asks; 900]);
        now = now.plus(RECENT);
        let gone = turns(&mut contest, &mut now, 2, TURN);
        assert_eq!(gone, [Next::Awaits, Next::Follows]);
    }
}
