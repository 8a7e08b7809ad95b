//! Who has which refund in hand, and whether they are paid in the order in which they came.

use std::time::Duration;

use tokio::time::Instant;

use crate::refund::requests::Refund;

/// How much earlier a refund has to come to have to be paid earlier: far longer than getting in line takes.
const CLEARLY: Duration = Duration::from_millis(500);

/// The refunds that have come, and the peers that are at them.
#[derive(Debug)]
pub(crate) struct Queues {
    refunds: Vec<Refund>,
    /// Since when each has been in line, unless its peer crashed.
    since: Vec<Option<Instant>>,
    came: Vec<bool>,
    served: Vec<bool>,
    finished: Vec<bool>,
    in_hand: Vec<Vec<u32>>,
    was_left: Vec<bool>,
    overtaken: usize,
}

impl Queues {
    pub(crate) fn new(refunds: Vec<Refund>) -> Self {
        let count = refunds.len();
        Self {
            refunds,
            since: vec![None; count],
            came: vec![false; count],
            served: vec![false; count],
            finished: vec![false; count],
            in_hand: vec![Vec::new(); count],
            was_left: vec![false; count],
            overtaken: 0,
        }
    }

    /// `peer` takes it in hand now.
    pub(crate) fn enter(&mut self, refund: usize, peer: u32, now: Instant) {
        self.came[refund] = true;
        self.in_hand[refund].push(peer);
        self.since[refund].get_or_insert(now);
    }

    /// `peer` takes it up; returns whether it may, since it is left.
    pub(crate) fn take_up(&mut self, refund: usize, peer: u32, now: Instant) -> bool {
        let is_left = self.is_left(refund);
        if is_left {
            self.was_left[refund] = true;
            self.enter(refund, peer, now);
        }
        is_left
    }

    /// `peer` lets go of it.
    pub(crate) fn leave(&mut self, refund: usize, peer: u32) {
        let peers = &mut self.in_hand[refund];
        if let Some(place) = peers.iter().position(|one| *one == peer) {
            peers.swap_remove(place);
        }
    }

    /// Nobody stands in line for it any more.
    pub(crate) fn lose_place(&mut self, refund: usize) {
        if self.in_hand[refund].is_empty() {
            self.since[refund] = None;
        }
    }

    /// `peer` has crashed: it has nothing in hand any more, and no place in any line.
    pub(crate) fn crashed(&mut self, peer: u32) {
        for (peers, since) in self.in_hand.iter_mut().zip(&mut self.since) {
            if peers.contains(&peer) {
                peers.retain(|one| *one != peer);
                *since = None;
            }
        }
    }

    /// It needs nothing more.
    pub(crate) fn finish(&mut self, refund: usize) {
        self.finished[refund] = true;
    }

    /// It is its turn: it is paid, or declined. Whoever came clearly earlier at the same bank was overtaken.
    pub(crate) fn serve(&mut self, refund: usize) {
        if std::mem::replace(&mut self.served[refund], true) {
            return;
        }
        let (Some(mine), bank) = (self.since[refund], self.refunds[refund].bank) else {
            return;
        };
        let overtaken = self.refunds.iter().filter(|other| {
            let came = self.since[other.id];
            other.bank == bank
                && !self.served[other.id]
                && came.is_some_and(|came| came + CLEARLY <= mine)
        });
        self.overtaken += overtaken.count();
    }

    /// What has come, is unfinished and in nobody's hands.
    pub(crate) fn left(&self) -> Vec<Refund> {
        let left = |refund: &&Refund| self.is_left(refund.id);
        self.refunds.iter().filter(left).copied().collect()
    }

    fn is_left(&self, refund: usize) -> bool {
        self.came[refund] && !self.finished[refund] && self.in_hand[refund].is_empty()
    }

    /// Whether the compensation run has ever taken it up.
    pub(crate) fn was_left(&self, refund: usize) -> bool {
        self.was_left[refund]
    }

    /// How often a refund was served before one that had come clearly earlier.
    pub(crate) fn overtaken(&self) -> usize {
        self.overtaken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues() -> Queues {
        let refund = |id| Refund {
            id,
            trade: id,
            bank: 0,
        };
        Queues::new((0..3).map(refund).collect())
    }

    #[test]
    fn who_came_clearly_earlier_and_is_still_there_was_overtaken() {
        let (mut queues, first) = (queues(), Instant::now());
        queues.enter(0, 0, first);
        queues.enter(1, 1, first);
        queues.enter(2, 1, first + CLEARLY);
        queues.serve(2);
        assert_eq!(queues.overtaken(), 2);
        queues.serve(1);
        queues.serve(0);
        assert_eq!(queues.overtaken(), 2, "they came at the same time");
    }

    #[test]
    fn what_a_crashed_peer_had_in_hand_is_left_and_has_no_place() {
        let (mut queues, first) = (queues(), Instant::now());
        queues.enter(0, 7, first);
        assert!(queues.left().is_empty());
        queues.crashed(7);
        assert_eq!(queues.left().len(), 1);
        queues.enter(1, 1, first + CLEARLY);
        queues.serve(1);
        assert_eq!(queues.overtaken(), 0);
    }
}
