//! Who asks for a refund, when, and at which peer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What every trade cost.
pub(crate) const PRICE: u32 = 100;

/// What is asked back at a time. A trade is asked for once more than its price allows.
pub(crate) const PART: u32 = 30;

/// How many refunds of a trade its price allows.
pub(crate) const PARTS_PAYABLE: u32 = PRICE / PART;

/// Every refund of so many reaches a second peer, too, as when a caller asks again.
const TWICE: usize = 8;

/// A request to pay a part of a trade back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refund {
    pub(crate) id: usize,
    pub(crate) trade: usize,
    /// Where the money of the trade came from.
    pub(crate) bank: usize,
}

/// A request that reaches a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Arrival {
    pub(crate) id: usize,
    pub(crate) refund: Refund,
    pub(crate) peer: u32,
    /// How long after the opening.
    pub(crate) after: Duration,
}

/// The refunds of all trades, one round of all trades after the other.
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
