//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

use crate::plan::Plan;

/// Compare all lock stores side by side, to choose one.
///
/// Exits with 0 if the coupons and the refunds came out right on every store, with 1 if they did
/// not, if a store cannot be reached or a file cannot be written, with 2 for wrong arguments.
#[derive(Debug, Parser)]
#[command(name = "compare")]
pub(crate) struct Arguments {
    /// A store to compare, such as redis://127.0.0.1:6379; may be given several times. Default:
    /// memory, and each store that is compiled in and whose server is installed, on a private
    /// server
    #[arg(long, value_name = "URL")]
    pub(crate) lock: Vec<String>,

    /// Write a page with all figures, which loads no other files
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write four of the charts as one picture, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,

    /// Measure for a minute or two only; the figures are less steady
    #[arg(long)]
    quick: bool,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Run as a worker of the comparison that listens at this address
    #[arg(long, hide = true, value_name = "ADDRESS", requires = "instance")]
    serve: Option<SocketAddr>,

    /// Number of the worker to run
    #[arg(long, hide = true, value_name = "N", requires = "serve")]
    instance: Option<u32>,
}

impl Arguments {
    /// Returns the amounts and durations to measure.
    pub(crate) fn plan(&self) -> Plan {
        match self.quick {
            true => Plan::QUICK,
            false => Plan::FULL,
        }
    }

    /// Returns the number of the worker to run, and the address of the comparison that started it.
    pub(crate) fn serves(&self) -> Option<(u32, SocketAddr)> {
        self.instance.zip(self.serve)
    }
}
