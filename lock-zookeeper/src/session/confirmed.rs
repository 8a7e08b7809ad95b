//! The last confirmation of a session by the members.

use std::time::Duration;

use lock_core::backend::{Moment, Mutex};

/// The largest age of a confirmation that a grant may count from, in total and as a part of the
/// ttl. The grant is shorter by this age.
pub(crate) const LATELY: Duration = Duration::from_millis(200);
const PART_OF_TTL: u32 = 50;

/// The last confirmation of one session. Each transaction of the session confirms it: a creation, a
/// deletion, or a transaction without a change.
#[derive(Default)]
pub(crate) struct LastConfirmation(Mutex<Option<Moment>>);

impl LastConfirmation {
    /// Notes the answer to a transaction that was sent at `sent`.
    pub(crate) fn note(&self, sent: Moment) {
        let mut last = self.0.lock();
        *last = last.max(Some(sent));
    }

    /// Returns when the last confirmed transaction was sent, if that is recent at `now` for a
    /// `ttl`.
    pub(crate) fn lately(&self, ttl: Duration, now: Moment) -> Option<Moment> {
        let last = *self.0.lock();
        let limit = LATELY.min(ttl / PART_OF_TTL);
        last.filter(|sent| now.since(*sent) <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::backend::Clock;

    #[test]
    fn a_confirmation_is_of_use_for_a_part_of_the_ttl() {
        let confirmed = LastConfirmation::default();
        let long = Duration::from_secs(30);
        let earlier = Clock::Boot.now();
        let sent = earlier.plus(Duration::from_secs(1));
        assert_eq!(confirmed.lately(long, sent), None);
        confirmed.note(sent);
        confirmed.note(earlier);
        let after = |milliseconds| sent.plus(Duration::from_millis(milliseconds));
        assert_eq!(confirmed.lately(long, after(200)), Some(sent));
        assert_eq!(confirmed.lately(long, after(201)), None);
        let short = Duration::from_secs(5);
        assert_eq!(confirmed.lately(short, after(100)), Some(sent));
        assert_eq!(confirmed.lately(short, after(101)), None);
    }
}
