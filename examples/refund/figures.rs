//! The figures of one mechanism.

use serde::Serialize;

use crate::refund::books::Standing;
use crate::refund::headquarters::State;
use crate::refund::mechanism::Mechanism;
use crate::refund::protocol::Answer;

/// One row of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    #[serde(rename = "name")]
    pub(crate) mechanism: Mechanism,
    pub(crate) at_once: usize,
    pub(crate) in_turn: usize,
    pub(crate) by_compensation: usize,
    pub(crate) declined: usize,
    pub(crate) double: usize,
    pub(crate) over_refunded: usize,
    pub(crate) lost: usize,
    pub(crate) wrong_books: usize,
    pub(crate) interval_violations: usize,
    pub(crate) order_violations: usize,
    pub(crate) refused_writes: usize,
    pub(crate) kills: u32,
    /// `None` unless a killed peer blocked a bank that another peer used later.
    pub(crate) blocked_ms: Option<f64>,
    /// `None` where no proxy fits between client and store.
    pub(crate) round_trips: Option<f64>,
    pub(crate) refunds_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Figures {
    /// Reads the figures from the books once every refund is finished.
    pub(crate) fn of(mechanism: Mechanism, state: &State, round_trips: Option<f64>) -> Self {
        let State {
            books,
            queues,
            kills,
            clerk,
            ..
        } = state;
        let paid = books.count(Standing::Paid);
        let at_once = clerk.answered(Answer::Paid);
        let in_turn = match mechanism {
            Mechanism::None | Mechanism::Lock => 0,
            Mechanism::Queue => {
                let paid = books.all(Standing::Paid);
                paid.filter(|refund| !queues.was_left(*refund)).count()
            }
        };
        let declined = books.count(Standing::Declined);
        Self {
            mechanism,
            at_once,
            in_turn,
            by_compensation: paid.saturating_sub(at_once + in_turn),
            declined,
            double: books.double(),
            over_refunded: books.over_refunded(),
            lost: books.lost(),
            wrong_books: books.wrong(),
            interval_violations: books.too_early(),
            order_violations: queues.overtaken(),
            refused_writes: books.refused(),
            kills: kills.done(),
            blocked_ms: kills
                .longest()
                .map(|longest| rounded(longest.as_secs_f64() * 1000.0)),
            round_trips: round_trips.map(rounded),
            refunds_per_s: rounded(clerk.per_second(paid + declined)),
            p50_ms: rounded(clerk.milliseconds_at(0.50)),
            p99_ms: rounded(clerk.milliseconds_at(0.99)),
        }
    }

    /// Returns true if each refund was paid once, with the pauses of the banks, and in order if
    /// promised.
    pub(crate) fn is_clean(&self) -> bool {
        let wrong = [
            self.double,
            self.over_refunded,
            self.lost,
            self.wrong_books,
            self.interval_violations,
        ];
        let in_order = self.mechanism != Mechanism::Queue || self.order_violations == 0;
        wrong == [0; 5] && in_order
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
