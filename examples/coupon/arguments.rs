//! The command line.

use std::net::SocketAddr;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum, value_parser};

use crate::coupon::strategy::Strategy;
use crate::stage::LockStore;
use crate::stage::problem::Problem;

/// Fourteen ways to sell a few coupons to a crowd through several instances of a service. Eleven of
/// them each meet the accident that breaks them. The last three use polylock as it is meant, and
/// meet all accidents: `polylock`, `multi-key` and `reentrant`.
///
/// Exits with 0 if each of these three sold exactly the stock without an error (or was not
/// selected), with 1 if it did not or if the store cannot be reached, with 2 for wrong arguments.
#[derive(Debug, Parser)]
#[command(
    name = "coupon",
    after_help = "\
What is measured, for each strategy:
  sold           orders written
  oversold       orders beyond the stock
  lost updates   orders that the stock did not decrease by
  double orders  orders beyond the first of a user
  stuck          1 when at the end nobody holds the lock and still nobody can have it
  claims/s       answers (bought, sold out, has one already, gave up waiting, failed) per second
                 from the opening to the last answer, accidents and waiting included
  p50, p99       from the opening, when everybody asks at once, to a buyer's answer
"
)]
pub(crate) struct Arguments {
    /// Number of coupons
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(2..=5_000))]
    pub(crate) stock: u32,

    /// Number of users, at least twice the stock; every tenth user sends two requests at the same
    /// time
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u32).range(4..=10_000))]
    pub(crate) buyers: u32,

    /// Number of instances of the service: threads on memory, processes on every other store
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u32).range(1..=16))]
    pub(crate) instances: u32,

    #[command(flatten)]
    pub(crate) store: LockStore,

    /// Run only this strategy; may be given several times
    #[arg(long, value_name = "NAME")]
    strategy: Vec<Strategy>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Run the instances as processes on memory too, where their polylocks cannot see each other
    #[arg(long, hide = true)]
    processes: bool,

    /// Run as an instance of the example that listens at this address
    #[arg(long, hide = true, value_name = "ADDRESS", requires = "instance")]
    serve: Option<SocketAddr>,

    /// Number of the instance to run
    #[arg(long, hide = true, value_name = "N", requires = "serve")]
    instance: Option<u32>,
}

impl Arguments {
    /// Parses the command line of this process; ends the process if it is wrong.
    pub(crate) fn checked() -> Self {
        let arguments = Self::parse();
        if let Err(message) = arguments.check() {
            Self::command()
                .error(ErrorKind::ValueValidation, message)
                .exit();
        }
        arguments
    }

    fn check(&self) -> Result<(), String> {
        if self.buyers < 2 * self.stock {
            return Err(format!(
                "{} buyers for {} coupons are no rush: give --buyers at least twice the --stock",
                self.buyers, self.stock
            ));
        }
        Ok(())
    }

    /// Returns the strategies to run, in the order of the table.
    pub(crate) fn strategies(&self) -> Vec<Strategy> {
        let all = Strategy::value_variants().iter().copied();
        all.filter(|strategy| self.strategy.is_empty() || self.strategy.contains(strategy))
            .collect()
    }

    /// Returns true if the instances are separate processes.
    pub(crate) fn separate_processes(&self) -> Result<bool, Problem> {
        Ok(self.processes || self.store.is_shared_by_processes()?)
    }

    /// Returns the number of the instance to run, and the address of the example that started it.
    pub(crate) fn serves(&self) -> Option<(u32, SocketAddr)> {
        self.instance.zip(self.serve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_run_once_and_in_the_order_of_the_table() {
        let line = [
            "coupon",
            "--strategy",
            "polylock",
            "--strategy",
            "none",
            "--strategy",
            "none",
        ];
        let arguments = Arguments::try_parse_from(line).unwrap();
        assert_eq!(arguments.strategies(), [Strategy::None, Strategy::Polylock]);
        let every_one = Arguments::try_parse_from(["coupon"]).unwrap();
        assert_eq!(every_one.strategies().len(), 14);
    }

    #[test]
    fn a_rush_needs_more_buyers_than_coupons() {
        let few = Arguments::try_parse_from(["coupon", "--stock", "50", "--buyers", "60"]).unwrap();
        assert!(few.check().unwrap_err().contains("no rush"));
        for wrong in [["coupon", "--stock", "0"], ["coupon", "--buyers", "0"]] {
            assert!(Arguments::try_parse_from(wrong).is_err());
        }
    }

    #[test]
    fn only_memory_stays_in_one_process() {
        let on = |url| Arguments::try_parse_from(["coupon", "--lock", url]).unwrap();
        assert!(!on("memory://").separate_processes().unwrap());
        assert!(!on("MEMORY://?namespace=x").separate_processes().unwrap());
        assert!(on("redis://localhost").separate_processes().unwrap());
    }
}
