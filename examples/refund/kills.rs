//! Which peers are killed in the middle of their work, and for how long their keys stay blocked.

use std::time::Duration;

use tokio::time::Instant;

use crate::refund::requests::Refund;

/// After how many steps the next kill comes: each refund has four or more.
const STEPS: std::ops::Range<u32> = 3..25;

/// The kills of one run, at moments drawn at random.
#[derive(Debug)]
pub(crate) struct Kills {
    left: u32,
    steps: u32,
    /// Banks whose lock a killed peer had, and since when.
    blocked: Vec<(usize, Instant)>,
    blocks: Vec<Duration>,
    done: u32,
}

impl Kills {
    pub(crate) fn new(kills: u32) -> Self {
        Self {
            left: kills,
            steps: fastrand::u32(STEPS),
            blocked: Vec::new(),
            blocks: Vec::new(),
            done: 0,
        }
    }

    /// Whether the peer that has just done a step for `refund` is killed.
    pub(crate) fn strikes(&mut self, refund: &Refund) -> bool {
        if self.left == 0 {
            return false;
        }
        self.steps -= 1;
        if self.steps > 0 {
            return false;
        }
        self.left -= 1;
        self.done += 1;
        self.steps = fastrand::u32(STEPS);
        self.blocked.push((refund.bank, Instant::now()));
        true
    }

    /// Somebody has the lock of this bank.
    pub(crate) fn is_free(&mut self, bank: usize) {
        let blocks = &mut self.blocks;
        self.blocked.retain(|(blocked, since)| {
            let frees = *blocked == bank;
            if frees {
                blocks.push(since.elapsed());
            }
            !frees
        });
    }

    pub(crate) fn done(&self) -> u32 {
        self.done
    }

    /// The longest time for which a bank was blocked by a killed peer.
    pub(crate) fn longest(&self) -> Option<Duration> {
        self.blocks.iter().max().copied()
    }
}
