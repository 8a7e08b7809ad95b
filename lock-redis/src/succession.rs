//! How the waiters of one client succeed each other, if nobody else wants the key.

use std::time::Duration;

use lock_core::Moment;

/// How soon a lock is to be given back for the next waiter to have counted on it: where it is held for longer, a round
/// trip makes less of a difference.
const SOON: Duration = Duration::from_micros(250);

/// How many waiters follow each other before others have a chance. More bring a few percent, and make the time scarce in
/// which a client finds the key free that polls.
const FOLLOWERS_MAX: u32 = 4;

/// How long a sign of others counts.
const RECENT: Duration = Duration::from_millis(100);

/// How long a release is awaited at most: nobody may be polling it.
const AWAITED_MAX: Duration = Duration::from_secs(1);

/// What the first in line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It asks, and again when it is told that the key has changed.
    Ask,
    /// It asks right behind a release of its own client, which saves a round trip and keeps all others out.
    Follow,
    /// It waits to be told, for so long at most.
    Await(Duration),
}

/// Where the waiters for one key stand.
///
/// Whoever has just been granted the key nearly always gives it back soon if many wait for it. So the next one does not
/// ask in vain, but behind that release. Every now and then it awaits the release's end instead, which is when others
/// hear of it. Those who get in are noticed, since their changes of the key are told, and nobody follows or awaits any
/// more until they are gone. As others count those, too, who ask on another connection of the client.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    next: Next,
    /// How many may still follow; none where the key has only begun to be waited for.
    followers: u32,
    /// When others changed the key.
    others: Option<Moment>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Asks,
    /// Counts on a release until then.
    Expects(Moment),
    /// Behind a release that has been sent.
    Follows,
    /// For the end of a release that has been sent, until then at most.
    Awaits(Moment),
}

impl Succession {
    /// What the first in line does now. Only one request follows each release.
    pub(crate) fn step(&mut self, now: Moment) -> Step {
        match self.next {
            Next::Expects(until) | Next::Awaits(until) if now < until => {
                Step::Await(until.since(now))
            }
            Next::Follows => {
                self.next = Next::Asks;
                Step::Follow
            }
            Next::Asks | Next::Expects(_) | Next::Awaits(_) => Step::Ask,
        }
    }

    /// The first in line has got the key for itself alone.
    pub(crate) fn granted(&mut self, now: Moment) {
        self.next = match self.is_contested(now) {
            true => Next::Asks,
            false => Next::Expects(now.plus(SOON)),
        };
    }

    /// A release has been sent. Says whether the first in line is to follow it.
    pub(crate) fn release_sent(&mut self, now: Moment) -> bool {
        let is_expected = matches!(self.next, Next::Expects(until) if now < until);
        if !is_expected {
            return false;
        }
        let follows = self.followers > 0;
        (self.next, self.followers) = match self.followers.checked_sub(1) {
            Some(left) => (Next::Follows, left),
            None => (Next::Awaits(now.plus(AWAITED_MAX)), FOLLOWERS_MAX),
        };
        follows
    }

    /// A release that is not followed has ended.
    pub(crate) fn release_ended(&mut self) {
        self.next = Next::Asks;
    }

    /// Others have changed the key.
    pub(crate) fn others_came(&mut self, now: Moment) {
        self.others = Some(now);
        self.next = Next::Asks;
    }

    fn is_contested(&self, now: Moment) -> bool {
        self.others.is_some_and(|then| now.since(then) < RECENT)
    }
}

#[cfg(test)]
mod tests {
    use lock_core::Clock;

    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(10);

    /// What the next one does about a lock that is granted, held for so long, and given back.
    fn step_after(key: &mut Succession, now: &mut Moment, hold: Duration) -> Step {
        key.granted(*now);
        *now = now.plus(hold);
        let follows = key.release_sent(*now);
        let step = key.step(*now);
        assert_eq!(follows, step == Step::Follow);
        *now = now.plus(ROUND_TRIP);
        if !follows {
            let meanwhile = key.step(*now);
            assert_eq!(
                matches!(meanwhile, Step::Await(_)),
                matches!(step, Step::Await(_)),
                "not before the release has ended"
            );
            key.release_ended();
        }
        assert_eq!(key.step(*now), Step::Ask);
        step
    }

    #[test]
    fn others_have_a_chance_every_now_and_then() {
        let (mut key, mut now) = (Succession::default(), Clock::Boot.now());
        for turn in 0..20 {
            let follows = step_after(&mut key, &mut now, SOON / 2) == Step::Follow;
            assert_eq!(follows, turn % 5 > 0, "turn {turn}");
        }
    }

    #[test]
    fn the_next_one_counts_on_a_release_for_a_moment_only() {
        let (mut key, mut now) = (Succession::default(), Clock::Boot.now());
        step_after(&mut key, &mut now, SOON / 2);
        key.granted(now);
        assert_eq!(key.step(now), Step::Await(SOON));
        assert_eq!(key.step(now.plus(SOON)), Step::Ask);
        assert_eq!(step_after(&mut key, &mut now, SOON), Step::Ask);
        assert_eq!(step_after(&mut key, &mut now, SOON / 2), Step::Follow);
    }

    #[test]
    fn nobody_awaits_a_release_for_ever() {
        let (mut key, now) = (Succession::default(), Clock::Boot.now());
        key.granted(now);
        assert!(!key.release_sent(now));
        assert_eq!(key.step(now), Step::Await(AWAITED_MAX));
        assert_eq!(key.step(now.plus(AWAITED_MAX)), Step::Ask);
    }

    #[test]
    fn nobody_follows_while_others_want_the_key() {
        let (mut key, mut now) = (Succession::default(), Clock::Boot.now());
        step_after(&mut key, &mut now, SOON / 2);
        key.granted(now);
        key.others_came(now);
        assert_eq!(key.step(now), Step::Ask);
        let gone = now.plus(RECENT);
        while now < gone {
            assert_eq!(step_after(&mut key, &mut now, SOON / 2), Step::Ask);
        }
        assert_eq!(step_after(&mut key, &mut now, SOON / 2), Step::Follow);
    }
}
