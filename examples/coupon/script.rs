//! Which accident each strategy meets, and when. It is the same one in every run, since a flaw that
//! shows only sometimes proves nothing.

use std::collections::VecDeque;
use std::time::Duration;

use crate::coupon::accident::{Accident, Pause, Point, Until};
use crate::coupon::strategy::Strategy;

/// How long a pause of a flawed strategy may last; it ends as soon as the harm is done.
const PAUSE_LIMIT: Duration = Duration::from_secs(2);

/// The accidents of one run, each of which happens to the first buyer who comes by after the one
/// before it.
#[derive(Debug)]
pub(crate) struct Script {
    cues: VecDeque<Cue>,
    drawn: usize,
    /// How many must have been sold before the first accident.
    after_sales: u32,
}

#[derive(Clone, Copy, Debug)]
struct Cue {
    point: Point,
    accident: Accident,
    /// Whether it happens to everybody who comes by.
    to_everybody: bool,
}

impl Script {
    /// The script of `strategy`, for a sale of `stock` coupons under a polylock with `ttl`.
    pub(crate) fn of(strategy: Strategy, stock: u32, ttl: Duration) -> Self {
        // Enough coupons stay for those who come after the accident.
        let after_sales = match strategy {
            // Without a lock everybody looks before anybody has bought.
            Strategy::None | Strategy::Optimistic => 0,
            _ => (stock / 4).min(5),
        };
        Self {
            cues: cues(strategy, ttl).into(),
            drawn: 0,
            after_sales,
        }
    }

    /// The accident that happens to a buyer who comes by `point` after `sold` sales.
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

    /// How many accidents have begun.
    pub(crate) fn drawn(&self) -> usize {
        self.drawn
    }
}

fn cues(strategy: Strategy, ttl: Duration) -> Vec<Cue> {
    match strategy {
        // The stock that was read is stale by the time it is written back.
        Strategy::None | Strategy::LocalMutex | Strategy::ShortExpiry => {
            vec![before_writing(pause(Until::AnotherOrder))]
        }
        Strategy::SetnxNoExpiry => vec![before_writing(Accident::Exception)],
        Strategy::SetnxFinally => vec![before_writing(Accident::Crash)],
        Strategy::SetnxThenExpire => vec![cue(Point::AfterSetNx, Accident::Crash)],
        // The first one deletes the lock of the second, who is still at work when a third gets in.
        Strategy::FixedOwner | Strategy::CheckThenDelete => vec![
            cue(Point::BeforeDel, pause(Until::NextAccident)),
            before_writing(pause(Until::AnotherOrder)),
        ],
        // The impatient come first; the others find what they leave.
        Strategy::Optimistic => vec![Cue {
            to_everybody: true,
            ..before_writing(pause(Until::OrderedTwice))
        }],
        // The pause outlasts the ttl, and would end at once if anybody else got in.
        Strategy::Polylock => vec![
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
