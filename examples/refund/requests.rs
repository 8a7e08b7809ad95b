//! The requests for refunds: trades, times, and peers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The price of every trade.
pub(crate) const PRICE: u32 = 100;

/// The amount of each refund. Each trade has one request more than its price allows.
pub(crate) const PART: u32 = 30;

/// The number of refunds that a trade's price allows.
pub(crate) const PARTS_PAYABLE: u32 = PRICE / PART;

/// Every eighth refund reaches a second peer, too, as if the caller had retried.
const TWICE: usize = 8;

/// A request to pay a part of a trade back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refund {
    pub(crate) id: usize,
    pub(crate) trade: usize,
    /// The bank that the trade was paid from.
    pub(crate) bank: usize,
}

/// A request that reaches a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Arrival {
    pub(crate) id: usize,
    pub(crate) refund: Refund,
    pub(crate) peer: u32,
    /// Time from the opening to the arrival.
    pub(crate) after: Duration,
}

/// Returns the refunds of all trades: the first of each trade, then the second, and so on.
pub(crate) fn refunds(trades: usize, banks: usize) -> Vec<Refund> {
    let parts = PARTS_PAYABLE as usize + 1;
    let all = (0..parts * trades).map(|id| {
        let trade = id % trades;
        Refund {
            id,
            trade,
            bank: trade % banks,
        }
    });
    all.collect()
}

/// Spreads `refunds` evenly over `within`, and over the peers.
pub(crate) fn arrivals(refunds: &[Refund], peers: u32, within: Duration) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for refund in refunds {
        let asked = if refund.id % TWICE == 0 { 2 } else { 1 };
        for again in 0..asked {
            let spread = refund.id as f64 / refunds.len() as f64;
            arrivals.push(Arrival {
                id: arrivals.len(),
                refund: *refund,
                peer: (fastrand::u32(0..peers) + again) % peers,
                after: within.mul_f64(spread),
            });
        }
    }
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trade_is_asked_for_once_too_often_and_some_refunds_twice() {
        let all = refunds(10, 3);
        for trade in 0..10 {
            let parts = all.iter().filter(|refund| refund.trade == trade).count();
            assert!(parts as u32 * PART > PRICE && (parts as u32 - 1) * PART <= PRICE);
        }
        let within = Duration::from_secs(1);
        let arrivals = arrivals(&all, 2, within);
        assert_eq!(arrivals.len(), all.len() + all.len() / TWICE);
        assert!(
            arrivals
                .iter()
                .all(|one| one.peer < 2 && one.after < within)
        );
        assert!(arrivals.is_sorted_by_key(|one| one.after));
    }
}
