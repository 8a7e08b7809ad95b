//! The queue of the waiters of one key in this process: pure bookkeeping, no I/O.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::{LockRequest, Mode};

/// The waiters of one key, in order of arrival, in every mode.
///
/// The first waiter is the driver, which claims the key on the store. Waiters behind it wait until
/// they are the driver, or get a guard from a release or a shared grant of this process. While a
/// guard of this process holds the key exclusively, there is no driver.
#[derive(Debug)]
pub(super) struct HandOffQueue<W> {
    turn: QueueOwner<W>,
    waiters: VecDeque<W>,
    /// Number of lapsed waiters since the waiters behind were last woken.
    lapses: u32,
    /// Time that this process has held the key since its last pause for other processes.
    spent: Duration,
    /// True if the last driver saw an outage until its wait ended. The waiters behind it share that
    /// outage.
    pub(super) is_silent: bool,
}

#[derive(Debug)]
enum QueueOwner<W> {
    Driver(W),
    /// The exclusive hold with this number. It may have ended, with its release pending.
    Holder {
        number: u64,
        ended: bool,
    },
}

/// Number of lapses after which the waiters behind are woken.
const LAPSES: u32 = 2;

/// A waiter in a queue.
pub(super) trait Waits: Clone {
    fn wants(&self) -> &Wants;

    /// Returns true if the waiter was dropped, failed or lapsed, so that the queue skips it.
    fn has_gone(&self) -> bool;
}

/// The properties that two requests must share for one hold to serve both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    pub(super) mode: Mode,
    pub(super) ttl: Duration,
    pub(super) lock_delay: Duration,
    pub(super) min_hold: Duration,
    pub(super) own_grant: bool,
    /// The store shows one label for all guards of a hold.
    pub(super) label: Option<Arc<str>>,
}

impl Wants {
    pub(super) fn of(request: &LockRequest) -> Self {
        Self {
            mode: request.mode,
            ttl: request.ttl(),
            lock_delay: request.lock_delay(),
            min_hold: request.min_hold(),
            own_grant: request.needs_own_grant(),
            label: request.label.clone(),
        }
    }
}

impl<W: Waits> HandOffQueue<W> {
    /// Creates the queue of a key whose first waiter is `driver`.
    pub(super) fn new(driver: W) -> Self {
        Self {
            turn: QueueOwner::Driver(driver),
            waiters: VecDeque::new(),
            lapses: 0,
            spent: Duration::ZERO,
            is_silent: false,
        }
    }

    /// Adds a waiter at the end.
    pub(super) fn push(&mut self, waiter: W) {
        // Remove waiters that are gone, so that they do not accumulate. Doing so only when the
        // queue would grow spreads the cost over the arrivals.
        if self.waiters.len() == self.waiters.capacity() {
            self.waiters.retain(|waiter| !waiter.has_gone());
        }
        self.waiters.push_back(waiter);
    }

    /// Puts a waiter back at the head, after the hold taken for it turned out unusable.
    pub(super) fn put_back(&mut self, waiter: W) {
        self.waiters.push_front(waiter);
    }

    pub(super) fn driver(&self) -> Option<&W> {
        match &self.turn {
            QueueOwner::Driver(driver) => Some(driver),
            QueueOwner::Holder { .. } => None,
        }
    }

    /// Returns true while a guard of this process holds the key exclusively.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.turn, QueueOwner::Holder { ended: false, .. })
    }

    /// Returns the exclusive hold that has ended and whose release is pending, if there is one.
    pub(super) fn ended(&self) -> Option<u64> {
        match self.turn {
            QueueOwner::Holder {
                number,
                ended: true,
            } => Some(number),
            QueueOwner::Holder { .. } | QueueOwner::Driver(_) => None,
        }
    }

    pub(super) fn belongs_to(&self, number: u64) -> bool {
        matches!(self.turn, QueueOwner::Holder { number: holder, .. } if holder == number)
    }

    /// Records that the hold `number` has ended, although its release may take longer.
    pub(super) fn end(&mut self, number: u64) {
        if self.belongs_to(number) {
            self.turn = QueueOwner::Holder {
                number,
                ended: true,
            };
        }
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.waiters.iter().any(|waiter| !waiter.has_gone())
    }

    /// Returns the waiter that arrived first, if there is one.
    pub(super) fn first(&self) -> Option<&W> {
        let behind = self.waiters.iter().find(|waiter| !waiter.has_gone());
        self.driver().or(behind)
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &W> {
        self.waiters.iter()
    }

    /// Records that the driver's exclusive claim was granted, as the hold `number`.
    pub(super) fn hold(&mut self, number: u64) {
        self.turn = QueueOwner::Holder {
            number,
            ended: false,
        };
    }

    /// Adds `held` to the spent time. Returns true, and starts over, if that spends the `budget`.
    pub(super) fn spend(&mut self, held: Duration, budget: Duration) -> bool {
        self.spent = self.spent.saturating_add(held);
        let is_spent = self.spent >= budget;
        if is_spent {
            self.spent = Duration::ZERO;
        }
        is_spent
    }

    /// Makes the next waiter the driver. `None` if there is none; the caller then removes the
    /// queue.
    pub(super) fn pass(&mut self) -> Option<W> {
        let next = self.pop()?;
        self.turn = QueueOwner::Driver(next.clone());
        Some(next)
    }

    /// Removes and returns the first waiter if it `wants` the same.
    pub(super) fn next_alike(&mut self, wants: &Wants) -> Option<W> {
        self.forget_gone();
        let is_alike = self.waiters.front()?.wants() == wants;
        is_alike.then(|| self.waiters.pop_front()).flatten()
    }

    /// Removes and returns the readers that share a grant of what the driver `wants`, at most
    /// `most`. Only readers ahead of the first waiter of another mode may share.
    pub(super) fn sharers(
        &mut self,
        wants: &Wants,
        most: usize,
        may: impl Fn(&W) -> bool,
    ) -> Vec<W> {
        let shared = |waiter: &W| waiter.has_gone() || waiter.wants().mode == Mode::Shared;
        let readers = self
            .waiters
            .iter()
            .take_while(|waiter| shared(waiter))
            .count();
        let mut sharers = Vec::new();
        let mut others = VecDeque::new();
        for waiter in self.waiters.drain(..readers) {
            if waiter.has_gone() {
                continue;
            }
            if waiter.wants() == wants && sharers.len() < most && may(&waiter) {
                sharers.push(waiter);
            } else {
                others.push_back(waiter);
            }
        }
        while let Some(waiter) = others.pop_back() {
            self.waiters.push_front(waiter);
        }
        sharers
    }

    /// Counts a lapse; returns true if the waiters behind are to be woken.
    pub(super) fn lapsed(&mut self) -> bool {
        self.lapses = (self.lapses + 1) % LAPSES;
        self.lapses == 0
    }

    fn pop(&mut self) -> Option<W> {
        self.forget_gone();
        self.waiters.pop_front()
    }

    fn forget_gone(&mut self) {
        while self.waiters.front().is_some_and(Waits::has_gone) {
            self.waiters.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Debug)]
    struct Waiter(char, Wants, Rc<Cell<bool>>);

    impl Waits for Waiter {
        fn wants(&self) -> &Wants {
            &self.1
        }

        fn has_gone(&self) -> bool {
            self.2.get()
        }
    }

    fn wants(mode: Mode) -> Wants {
        Wants {
            mode,
            ttl: Duration::from_secs(1),
            lock_delay: Duration::ZERO,
            min_hold: Duration::ZERO,
            own_grant: false,
            label: None,
        }
    }

    fn waiter(name: char) -> Waiter {
        let mode = match name {
            'a'..='e' => Mode::Exclusive,
            'r'..='t' => Mode::Shared,
            _ => Mode::permit(2).unwrap(),
        };
        Waiter(name, wants(mode), Rc::default())
    }

    fn queue(names: &str) -> HandOffQueue<Waiter> {
        let mut names = names.chars();
        let mut queue = HandOffQueue::new(waiter(names.next().unwrap()));
        names.for_each(|name| queue.push(waiter(name)));
        queue
    }

    fn name(waiter: Option<Waiter>) -> Option<char> {
        waiter.map(|waiter| waiter.0)
    }

    #[test]
    fn each_is_driver_in_its_turn_and_those_that_have_gone_are_passed_over() {
        let mut queue = queue("arb");
        queue.waiters[0].2.set(true);
        assert_eq!(name(queue.pass()), Some('b'));
        assert_eq!(queue.driver().unwrap().0, 'b');
        queue.hold(7);
        assert!(queue.belongs_to(7) && !queue.belongs_to(6) && queue.driver().is_none());
        assert!(queue.is_held());
        queue.end(7);
        assert!(queue.belongs_to(7) && !queue.is_held());
        assert_eq!(name(queue.pass()), None);
    }

    #[test]
    fn a_hold_goes_to_the_first_waiter_or_to_nobody() {
        let mut queue = queue("abrc");
        assert_eq!(name(queue.next_alike(&wants(Mode::Exclusive))), Some('b'));
        // A reader came before the next writer.
        assert_eq!(name(queue.next_alike(&wants(Mode::Exclusive))), None);
    }

    #[test]
    fn readers_share_up_to_the_first_writer_and_keep_their_order() {
        let mut queue = queue("rstast");
        queue.waiters[1].1 = wants(Mode::Shared);
        let shared: String = queue
            .sharers(&wants(Mode::Shared), 1, |_| true)
            .iter()
            .map(|waiter| waiter.0)
            .collect();
        assert_eq!(shared, "s");
        let left: String = queue.waiters.iter().map(|waiter| waiter.0).collect();
        assert_eq!(left, "tast");
    }

    #[test]
    fn a_budget_is_spent_by_all_holds_together_and_begins_anew() {
        let mut queue = queue("a");
        let spends: Vec<_> = [4, 0, 5, 1, 4, 20]
            .map(|held| queue.spend(Duration::from_millis(held), Duration::from_millis(10)))
            .into();
        assert_eq!(spends, [false, false, false, true, false, true]);
    }

    #[test]
    fn waiters_that_come_and_go_do_not_pile_up() {
        let mut queue = queue("a");
        for _ in 0..10_000 {
            let gone = waiter('b');
            gone.2.set(true);
            queue.push(gone);
        }
        assert!(queue.waiters.len() < 64, "{}", queue.waiters.len());
    }
}
