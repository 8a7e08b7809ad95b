//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, value_parser};

use crate::refund::mechanism::Mechanism;
use crate::stage::LockStore;

/// A refund system of several peers without a manager. All peers receive partial refunds of the
/// same trades, paid by the same banks. A request never waits for a lock, the banks want a pause
/// between two payments, and peers are killed at random.
///
/// Exits with 0 if `lock` and `queue` paid everything exactly once and kept their promises (or were
/// not selected), with 1 if they did not or if the store cannot be reached, with 2 for wrong
/// arguments.
#[derive(Debug, Parser)]
#[command(
    name = "refund",
    after_help = "\
What is measured, for each mechanism:
  at once        refunds that were paid while whoever asked for them waited for the answer
  in turn        refunds that were paid when it was their turn in the queue
  compensation   refunds that were paid by the compensation run: their lock or their bank was busy,
                 or their peer was killed
  declined       refunds that were not paid since the rest of the trade's price was less
  double         payments of a refund that was paid before
  over-refunded  trades for which more was paid back than they cost
  lost           refunds that were due and never paid
  wrong books    trades of which the books say something else than the bank
  too early      payments sooner after the last one at the same bank than it wants
  overtaken      refunds that came 500 ms before one that was served earlier at the same bank; only
                 the queue promises an order
  refused        writes of peers whose lock had been granted to somebody else, refused by their
                 fencing token
  blocked ms     how long a killed peer kept others from its bank, at most
  round trips    to the lock store that a refund waits for, when nobody is in the way
  p50, p99       until whoever asked has an answer, which may be that it will be done
"
)]
pub(crate) struct Arguments {
    /// Number of trades; each has four requested refunds, of which three can be paid
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) trades: u32,

    /// Number of banks that the trades were paid from
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) banks: u32,

    /// Number of peers that take refunds: threads on memory, processes on every other store
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=16))]
    pub(crate) peers: u32,

    /// Minimum pause between two payments of one bank, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = value_parser!(u64).range(0..=1_000))]
    interval: u64,

    /// Number of times that a peer is killed, at random moments of its work
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(0..=100))]
    pub(crate) kills: u32,

    #[command(flatten)]
    pub(crate) store: LockStore,

    /// Run only this mechanism; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) mechanism: Vec<Mechanism>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Run as a peer of the example that listens at this address
    #[arg(long, hide = true, value_name = "ADDRESS", requires = "instance")]
    serve: Option<SocketAddr>,

    /// Number of the peer to run
    #[arg(long, hide = true, value_name = "N", requires = "serve")]
    instance: Option<u32>,
}

impl Arguments {
    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(self.interval)
    }

    /// Returns true if `mechanism` was selected; without a selection, all are.
    pub(crate) fn wants(&self, mechanism: Mechanism) -> bool {
        self.mechanism.is_empty() || self.mechanism.contains(&mechanism)
    }

    /// Returns the number of the peer to run, and the address of the example that started it.
    pub(crate) fn serves(&self) -> Option<(u32, SocketAddr)> {
        self.instance.zip(self.serve)
    }
}
