//! Records which peer works on which refund, and the order in which refunds are paid.

use std::time::Duration;

use tokio::time::Instant;

use crate::refund::requests::Refund;

/// Lead that counts as an earlier arrival: far longer than the entry into a queue takes.
const CLEARLY: Duration = Duration::from_millis(500);

/// The refunds that have arrived, and the peers that work on them.
#[derive(Debug)]
pub(crate) struct Queues {
    refunds: Vec<Refund>,
    /// The time when each refund entered the queue; `None` after a crash of its peer.
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

    /// Notes that `peer` starts to work on a refund.
    pub(crate) fn enter(&mut self, refund: usize, peer: u32, now: Instant) {
        self.came[refund] = true;
        self.in_hand[refund].push(peer);
        self.since[refund].get_or_insert(now);
    }

    /// Lets `peer` take up a refund; returns false unless the refund is left.
    pub(crate) fn take_up(&mut self, refund: usize, peer: u32, now: Instant) -> bool {
        let is_left = self.is_left(refund);
        if is_left {
            self.was_left[refund] = true;
            self.enter(refund, peer, now);
        }
        is_left
    }

    /// Notes that `peer` ends its work on a refund.
    pub(crate) fn leave(&mut self, refund: usize, peer: u32) {
        let peers = &mut self.in_hand[refund];
        if let Some(place) = peers.iter().position(|one| *one == peer) {
            peers.swap_remove(place);
        }
    }

    /// Removes a refund from the queue, unless a peer works on it.
    pub(crate) fn lose_place(&mut self, refund: usize) {
        if self.in_hand[refund].is_empty() {
            self.since[refund] = None;
        }
    }

    /// Notes that `peer` has crashed: it works on no refund and has no place in a queue.
    pub(crate) fn crashed(&mut self, peer: u32) {
        for (peers, since) in self.in_hand.iter_mut().zip(&mut self.since) {
            if peers.contains(&peer) {
                peers.retain(|one| *one != peer);
                *since = None;
            }
        }
    }

    /// Notes that a refund needs no further step.
    pub(crate) fn finish(&mut self, refund: usize) {
        self.finished[refund] = true;
    }

    /// Notes that a refund is paid or declined, and counts the earlier refunds that it overtook.
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

    /// Returns the refunds that have arrived, are unfinished, and no peer works on.
    pub(crate) fn left(&self) -> Vec<Refund> {
        let left = |refund: &&Refund| self.is_left(refund.id);
        self.refunds.iter().filter(left).copied().collect()
    }

    fn is_left(&self, refund: usize) -> bool {
        self.came[refund] && !self.finished[refund] && self.in_hand[refund].is_empty()
    }

    /// Returns true if the compensation run has ever taken up the refund.
    pub(crate) fn was_left(&self, refund: usize) -> bool {
        self.was_left[refund]
    }

    /// Returns how many refunds were overtaken by one that had arrived clearly later.
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
