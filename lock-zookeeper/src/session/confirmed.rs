//! The last confirmation of a session by the members, and the requests that the leader knows of.
//!
//! Only the leader ends sessions, and a transaction is no sign of life to it. A follower reports
//! twice a tick which sessions have sent a request. So when a follower dies, the leader counts from
//! the last request that was sent half a tick before, or earlier.
//!
//! Invariant: no hold counts from later than half a tick after a request that the leader knows of.
//! Breaks if: a tick is longer than half of the shortest session, or than 4 seconds. Or if the
//! leader stands still, asks for no reports, and the follower dies before the next report.

use std::collections::VecDeque;
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

/// The pause between two heartbeats, as a part of the timeout, and its maximum.
const HEARTBEATS: u32 = 16;
pub(crate) const HEARTBEAT_MAX: Duration = Duration::from_millis(750);

/// The largest number of requests that are remembered. Together they are as long as the session.
const REQUESTS_MAX: usize = 64;

/// The requests of a session that were answered, as signs of life.
pub(crate) struct SignsOfLife(Mutex<Requests>);

struct Requests {
    /// When the client asked for the connection. The leader itself answered that request.
    connected: Moment,
    /// When later requests were sent, in order.
    sent: VecDeque<Moment>,
}

impl SignsOfLife {
    pub(crate) fn new(connected: Moment) -> Self {
        Self(Mutex::new(Requests {
            connected,
            sent: VecDeque::new(),
        }))
    }

    /// Notes a new connection, which was requested at `asked`. Requests over the old connection may
    /// never be reported.
    pub(crate) fn reconnected(&self, asked: Moment) {
        let mut requests = self.0.lock();
        requests.connected = asked;
        requests.sent.clear();
    }

    /// Notes an answered request. One request of each `interval` is remembered.
    pub(crate) fn note(&self, sent: Moment, interval: Duration) {
        let mut requests = self.0.lock();
        let last = requests.sent.back().copied().unwrap_or(requests.connected);
        if sent < last.plus(interval) {
            return;
        }
        if requests.sent.len() == REQUESTS_MAX {
            requests.sent.pop_front();
        }
        requests.sent.push_back(sent);
    }

    /// Returns from when a hold counts that was confirmed by a request sent at `sent`, if requests
    /// are reported after at most `unreported`. That is `sent`, or earlier after a pause without
    /// requests.
    pub(crate) fn counts_from(&self, sent: Moment, unreported: Duration) -> Moment {
        let requests = self.0.lock();
        let is_known = |request: &&Moment| request.plus(unreported) <= sent;
        let known = requests.sent.iter().rev().find(is_known);
        let known = *known.unwrap_or(&requests.connected);
        sent.min(known.plus(unreported))
    }
}

/// Returns the pause between two heartbeats of a session.
pub(crate) fn heartbeat(timeout: Duration) -> Duration {
    HEARTBEAT_MAX.min(timeout / HEARTBEATS)
}

#[cfg(test)]
mod tests {
    use lock_core::backend::Clock;

    use super::*;

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

    #[test]
    fn a_hold_counts_from_a_request_that_the_leader_knows_of() {
        let half = Duration::from_millis(500);
        let connected = Clock::Boot.now();
        let after = |milliseconds| connected.plus(Duration::from_millis(milliseconds));
        let signs = SignsOfLife::new(connected);
        let from = |milliseconds| signs.counts_from(after(milliseconds), half);
        assert_eq!(from(300), after(300));
        assert_eq!(from(500), after(500));
        // After a pause, only the connection is known.
        assert_eq!(from(2_000), after(500));
        for milliseconds in [2_000, 2_030, 2_100, 2_400] {
            signs.note(after(milliseconds), Duration::from_millis(100));
        }
        assert_eq!(from(2_400), after(500));
        assert_eq!(from(2_500), after(2_500));
        assert_eq!(from(2_610), after(2_600), "2,030 was too close to 2,000");
        assert_eq!(from(4_000), after(2_900));
        // An answer that was late.
        signs.note(after(1_000), Duration::ZERO);
        assert_eq!(from(1_500), after(500));
        signs.reconnected(after(5_000));
        signs.note(after(4_500), Duration::ZERO);
        assert_eq!(from(5_200), after(5_200));
        assert_eq!(from(6_000), after(5_500));
    }

    #[test]
    fn the_last_requests_are_remembered() {
        let begin = Clock::Boot.now();
        let signs = SignsOfLife::new(begin);
        let second = Duration::from_secs(1);
        for number in 1..=1_000 {
            signs.note(begin.plus(second * number), second);
        }
        assert_eq!(signs.0.lock().sent.len(), REQUESTS_MAX);
        let last = begin.plus(second * 1_000);
        assert_eq!(signs.counts_from(last, second), last);
    }
}
