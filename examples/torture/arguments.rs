//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, value_parser};

use crate::stage::LockStore;

/// Torments locks: processes take them in every supported way, while connections stall, break and
/// lose answers, and the processes themselves are stopped and killed. The records of all processes
/// are then checked: no two holders at once, growing tokens, the promised order of arrival, no
/// stuck waiter.
///
/// It never harms a server that it did not start. Exits with 0 if no promise was broken, with 1 if
/// one was or if the store cannot be reached, with 2 for wrong arguments.
#[derive(Debug, Parser)]
#[command(
    name = "torture",
    after_help = "\
What is reported:
  grants           that the store gave, and with --hand-off those that were handed on
  contended        of them, those for which a holder had to be waited
  faults           that struck while a lock was held, by kind
  losses           holds that ended although their holders did not want it, and were told
  removals         moments with two holders after the store was made to forget one: allowed for a third of the
                   ttl and a round trip, with the greater token for the later one
  violations       promises that were broken
  recovery         the longest wait for the key of a holder that was lost or dead
"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) store: LockStore,

    /// Start a private server of the kind that --lock names, such as --lock redis://, and torment
    /// that, too; only the scheme and the query of the URL are used
    #[arg(long)]
    pub(crate) server: bool,

    /// Duration of the torture, in minutes; 0.5 is half a minute
    #[arg(long, value_name = "N", default_value = "0.5", value_parser = minutes)]
    pub(crate) minutes: Duration,

    /// Seed of all random choices; the exact times still differ
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,

    /// Number of processes that take locks; on memory, threads
    #[arg(long, value_name = "P", default_value_t = 4, value_parser = value_parser!(u32).range(2..=64))]
    pub(crate) processes: u32,

    /// Maximum time that a hold is handed on within a process; with 0s the store gives each grant
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    pub(crate) hand_off: Duration,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Instead, show the use of fencing tokens: 1,000 updates of a register that checks tokens and
    /// of a register that does not, by holders that are stopped between reading and writing
    #[arg(long, conflicts_with = "minutes")]
    pub(crate) control: bool,

    /// Keep the records of all processes in this directory; they are also kept if a promise was
    /// broken
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) records: Option<PathBuf>,

    /// Run as a worker of the example that listens at this address
    #[arg(long, hide = true, value_name = "ADDRESS", requires = "instance")]
    serve: Option<SocketAddr>,

    /// Number of the worker to run
    #[arg(long, hide = true, value_name = "N", requires = "serve")]
    instance: Option<u32>,
}

impl Arguments {
    /// Returns the number of the worker to run, and the address of the example that started it.
    pub(crate) fn serves(&self) -> Option<(u32, SocketAddr)> {
        self.instance.zip(self.serve)
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "write a number, such as 0.5")?;
    match minutes {
        0.05..=1440.0 => Ok(Duration::from_secs_f64(minutes * 60.0)),
        _ => Err("choose from 0.05 to 1440 minutes".to_owned()),
    }
}
