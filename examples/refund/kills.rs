//! The kills of peers during their work, and the times for which their keys stay blocked.

use std::time::Duration;

use tokio::time::Instant;

use crate::refund::requests::Refund;

/// Number of steps until the next kill. Each refund has at least four steps.
const STEPS: std::ops::Range<u32> = 3..25;

/// The kills of one run, at random moments.
#[derive(Debug)]
pub(crate) struct Kills {
    left: u32,
    steps: u32,
    /// Banks whose lock a killed peer held, with the time of the kill.
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

    /// Returns true if the peer that has just performed a step for `refund` is killed.
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

    /// Notes that a peer has the lock of `bank`.
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

    /// Returns the longest time for which a killed peer blocked a bank.
    pub(crate) fn longest(&self) -> Option<Duration> {
        self.blocks.iter().max().copied()
    }
}
