//! The books of the refund system, and the bank.
//!
//! Neither knows of any lock: both obey the peers and record each step, so that errors show
//! afterwards.

use std::time::Duration;

use tokio::time::Instant;

use crate::refund::protocol::{Fence, Step, Trade};
use crate::refund::requests::{PART, PARTS_PAYABLE, PRICE, Refund};

/// The record of a trade in the books.
#[derive(Clone, Debug, Default)]
struct Row {
    refunded: u32,
    begun: Option<Refund>,
    fence: u64,
}

/// The bank's record of an account.
#[derive(Clone, Debug, Default)]
struct Account {
    last_payment: Option<Instant>,
    fence: u64,
}

/// The state of a refund in the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Paid,
    Declined,
}

/// Books and bank of one run.
#[derive(Debug)]
pub(crate) struct Books {
    interval: Duration,
    trades: Vec<Row>,
    accounts: Vec<Account>,
    standings: Vec<Standing>,
    payments: Vec<Refund>,
    too_early: usize,
    refused: usize,
}

/// The answer of the books to a step.
#[derive(Debug)]
pub(crate) enum Entry {
    Done,
    Yes(bool),
    Trade(Trade),
    Outdated,
}

impl Books {
    /// Creates the books and the bank, which wants `interval` between two payments of one account.
    pub(crate) fn new(trades: usize, banks: usize, refunds: usize, interval: Duration) -> Self {
        Self {
            interval,
            trades: vec![Row::default(); trades],
            accounts: vec![Account::default(); banks],
            standings: vec![Standing::Open; refunds],
            payments: Vec::new(),
            too_early: 0,
            refused: 0,
        }
    }

    /// Performs a step, unless `fence` shows that the lock has since been granted to a later
    /// holder.
    pub(crate) fn enter(&mut self, refund: &Refund, fence: Option<Fence>, step: Step) -> Entry {
        if fence.is_some_and(|fence| self.is_outdated(refund, fence)) {
            // Reads do no harm, so they do not count as refused.
            self.refused += usize::from(!matches!(step, Step::Read | Step::WasPaid));
            return Entry::Outdated;
        }
        let row = &mut self.trades[refund.trade];
        match step {
            Step::Read => return Entry::Trade(self.trade(refund)),
            Step::WasPaid => return Entry::Yes(self.payments.contains(refund)),
            Step::Begin => row.begun = Some(*refund),
            Step::Abandon => row.begun = None,
            Step::Pay => self.pay(refund),
            Step::Finish { refunded } => {
                row.refunded = refunded;
                row.begun = None;
                self.standings[refund.id] = Standing::Paid;
            }
            Step::Decline => self.standings[refund.id] = Standing::Declined,
        }
        Entry::Done
    }

    fn is_outdated(&mut self, refund: &Refund, fence: Fence) -> bool {
        let (row, account) = (
            &mut self.trades[refund.trade],
            &mut self.accounts[refund.bank],
        );
        if fence.trade < row.fence || fence.bank < account.fence {
            return true;
        }
        (row.fence, account.fence) = (fence.trade, fence.bank);
        false
    }

    fn trade(&self, refund: &Refund) -> Trade {
        let row = &self.trades[refund.trade];
        let last = self.accounts[refund.bank].last_payment;
        let since = last.map_or(self.interval, |last| last.elapsed());
        Trade {
            refunded: row.refunded,
            begun: row.begun,
            is_finished: self.standing(refund.id) != Standing::Open,
            pause: self.interval.saturating_sub(since),
        }
    }

    fn pay(&mut self, refund: &Refund) {
        let (now, account) = (Instant::now(), &mut self.accounts[refund.bank]);
        let early = |last: Instant| now - last < self.interval;
        self.too_early += usize::from(account.last_payment.is_some_and(early));
        account.last_payment = Some(now);
        self.payments.push(*refund);
    }

    pub(crate) fn standing(&self, refund: usize) -> Standing {
        self.standings[refund]
    }

    pub(crate) fn are_finished(&self) -> bool {
        self.count(Standing::Open) == 0
    }

    /// Returns the number of refunds with this state.
    pub(crate) fn count(&self, standing: Standing) -> usize {
        self.all(standing).count()
    }

    /// Returns the refunds with this state.
    pub(crate) fn all(&self, standing: Standing) -> impl Iterator<Item = usize> {
        let refunds = self.standings.iter().enumerate();
        refunds.filter_map(move |(refund, one)| (*one == standing).then_some(refund))
    }

    /// Returns the number of payments of refunds that the bank had paid before.
    pub(crate) fn double(&self) -> usize {
        let mut paid = vec![false; self.standings.len()];
        let again = |refund: &&Refund| std::mem::replace(&mut paid[refund.id], true);
        self.payments.iter().filter(again).count()
    }

    /// Returns the number of trades for which the bank paid back more than their price.
    pub(crate) fn over_refunded(&self) -> usize {
        let trades = 0..self.trades.len();
        trades.filter(|trade| self.paid_for(*trade) > PRICE).count()
    }

    /// Returns the number of refunds that the trade's price allowed and that the bank never paid.
    pub(crate) fn lost(&self) -> usize {
        let payable = (PARTS_PAYABLE * PART) as usize;
        let missing = |trade| payable.saturating_sub(self.paid_for(trade) as usize) / PART as usize;
        (0..self.trades.len()).map(missing).sum()
    }

    /// Returns the number of trades for which the books and the bank disagree.
    pub(crate) fn wrong(&self) -> usize {
        let rows = self.trades.iter().enumerate();
        rows.filter(|(trade, row)| row.refunded != self.paid_for(*trade))
            .count()
    }

    /// Returns the number of payments sooner after the previous one than the bank wants.
    pub(crate) fn too_early(&self) -> usize {
        self.too_early
    }

    /// Returns the number of writes that were refused because of a later holder of the lock.
    pub(crate) fn refused(&self) -> usize {
        self.refused
    }

    fn paid_for(&self, trade: usize) -> u32 {
        let payments = self.payments.iter().filter(|paid| paid.trade == trade);
        payments.map(|_| PART).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUNDS: [Refund; 4] = [refund(0), refund(1), refund(2), refund(3)];

    const fn refund(id: usize) -> Refund {
        Refund {
            id,
            trade: 0,
            bank: 0,
        }
    }

    fn books() -> Books {
        Books::new(1, 1, REFUNDS.len(), Duration::ZERO)
    }

    fn pay(books: &mut Books, refund: &Refund, refunded: u32) {
        for step in [Step::Begin, Step::Pay, Step::Finish { refunded }] {
            books.enter(refund, None, step);
        }
    }

    #[test]
    fn what_is_paid_once_and_noted_is_in_order() {
        let mut books = books();
        for (number, refund) in REFUNDS.iter().take(3).enumerate() {
            pay(&mut books, refund, PART * (number as u32 + 1));
        }
        books.enter(&REFUNDS[3], None, Step::Decline);
        assert!(books.are_finished());
        let wrong = [
            books.double(),
            books.over_refunded(),
            books.lost(),
            books.wrong(),
        ];
        assert_eq!(wrong, [0; 4]);
    }

    #[test]
    fn nothing_that_goes_wrong_is_overlooked() {
        let mut books = books();
        books.interval = Duration::from_secs(60);
        for refund in &REFUNDS {
            pay(&mut books, refund, PART);
        }
        assert_eq!(
            (books.over_refunded(), books.wrong(), books.too_early()),
            (1, 1, 3)
        );
        pay(&mut books, &REFUNDS[0], PART);
        assert_eq!(books.double(), 1);
        let mut books = self::books();
        pay(&mut books, &REFUNDS[0], PART);
        assert_eq!(books.lost(), 2);
    }

    #[test]
    fn who_was_overtaken_may_look_and_do_nothing() {
        let mut books = books();
        let fences = [1, 2].map(|token| {
            Some(Fence {
                trade: token,
                bank: token,
            })
        });
        books.enter(&REFUNDS[0], fences[1], Step::Begin);
        assert!(matches!(
            books.enter(&REFUNDS[0], fences[0], Step::Pay),
            Entry::Outdated
        ));
        assert_eq!((books.refused(), books.payments.len()), (1, 0));
    }
}
