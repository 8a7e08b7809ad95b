//! The accident that each strategy meets.
//!
//! It is the same in every run, since a flaw that shows only sometimes proves nothing.

use std::collections::VecDeque;
use std::time::Duration;

use crate::coupon::accident::{Accident, Pause, Point, Until};
use crate::coupon::strategy::Strategy;

/// Time limit for a pause of a flawed strategy; the pause ends as soon as the harm is done.
const PAUSE_LIMIT: Duration = Duration::from_secs(2);

/// The accidents of one run, in order: each happens to the next buyer that reaches its point.
#[derive(Debug)]
pub(crate) struct Script {
    cues: VecDeque<Cue>,
    drawn: usize,
    /// Number of sales before the first accident.
    after_sales: u32,
}

#[derive(Clone, Copy, Debug)]
struct Cue {
    point: Point,
    accident: Accident,
    /// True if the accident happens to all buyers that reach the point.
    to_everybody: bool,
}

impl Script {
    /// Creates the script of `strategy`, for a sale of `stock` coupons and polylocks with `ttl`.
    pub(crate) fn of(strategy: Strategy, stock: u32, ttl: Duration) -> Self {
        // Enough coupons are left for the buyers after the accident.
        let after_sales = match strategy {
            // Without a lock, all buyers look before any of them has bought.
            Strategy::None | Strategy::Optimistic => 0,
            _ => (stock / 4).min(5),
        };
        Self {
            cues: cues(strategy, ttl).into(),
            drawn: 0,
            after_sales,
        }
    }

    /// Returns the accident for a buyer that reaches `point` after `sold` sales.
    pub(crate) fn draw(&mut self, point: Point, sold: u32) -> Option<Accident> {
        let next = *self.cues.front()?;
        if next.point != point || sold < self.after_sales {
            return None;
        }
        if !next.to_everybody {
            self.cues.pop_front();
            self.drawn += 1;
        }
        Some(next.accident)
    }

    /// Returns the number of accidents that have begun.
    pub(crate) fn drawn(&self) -> usize {
        self.drawn
    }
}

fn cues(strategy: Strategy, ttl: Duration) -> Vec<Cue> {
    match strategy {
        // The stock that the claim has read is stale when the claim writes it back.
        Strategy::None | Strategy::LocalMutex | Strategy::ShortExpiry => {
            vec![before_writing(pause(Until::AnotherOrder))]
        }
        Strategy::SetnxNoExpiry => vec![before_writing(Accident::Exception)],
        Strategy::SetnxFinally => vec![before_writing(Accident::Crash)],
        Strategy::SetnxThenExpire => vec![cue(Point::AfterSetNx, Accident::Crash)],
        // The first claim deletes the lock of the second, which is still at work when a third
        // enters.
        Strategy::FixedOwner | Strategy::CheckThenDelete => vec![
            cue(Point::BeforeDel, pause(Until::NextAccident)),
            before_writing(pause(Until::AnotherOrder)),
        ],
        // The impatient users come first; the other users find the coupons that are left.
        Strategy::Optimistic => vec![Cue {
            to_everybody: true,
            ..before_writing(pause(Until::OrderedTwice))
        }],
        // They need no accident: two requests of one user, or one sale, suffice.
        Strategy::TwoLocks | Strategy::NestedLock => Vec::new(),
        // The pause outlasts the ttl, and would end at once if another buyer entered.
        Strategy::Polylock | Strategy::MultiKey | Strategy::Reentrant => vec![
            before_writing(Accident::Exception),
            before_writing(Accident::Crash),
            before_writing(Accident::Pause(Pause {
                until: Until::AnotherOrder,
                at_most: ttl * 5 / 4,
            })),
        ],
    }
}

fn cue(point: Point, accident: Accident) -> Cue {
    Cue {
        point,
        accident,
        to_everybody: false,
    }
}

fn before_writing(accident: Accident) -> Cue {
    cue(Point::BeforeWriting, accident)
}

fn pause(until: Until) -> Accident {
    Accident::Pause(Pause {
        until,
        at_most: PAUSE_LIMIT,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accidents_come_in_order_at_their_point_and_once() {
        let mut script = Script::of(Strategy::FixedOwner, 50, Duration::from_secs(1));
        assert_eq!(script.draw(Point::BeforeDel, 4), None, "too early");
        assert_eq!(script.draw(Point::BeforeWriting, 9), None, "out of order");
        assert!(script.draw(Point::BeforeDel, 9).is_some());
        assert_eq!(script.draw(Point::BeforeDel, 9), None, "happens once");
        assert!(script.draw(Point::BeforeWriting, 9).is_some());
        assert_eq!(script.drawn(), 2);
        assert_eq!(script.draw(Point::BeforeWriting, 9), None);
    }

    #[test]
    fn what_happens_to_everybody_goes_on_happening() {
        let mut script = Script::of(Strategy::Optimistic, 2, Duration::from_secs(1));
        for _ in 0..3 {
            assert!(script.draw(Point::BeforeWriting, 0).is_some());
        }
    }
}
