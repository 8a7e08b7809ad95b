//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

use crate::plan::Plan;

/// All lock stores side by side, to choose one.
///
/// Exits with 0 when the coupons and the refunds came out right on every store, with 1 when they did not, when
/// a store cannot be reached or a file cannot be written, with 2 for wrong arguments.
#[derive(Debug, Parser)]
#[command(name = "compare")]
pub(crate) struct Arguments {
    /// A store to compare, such as redis://127.0.0.1:6379; may be given several times. Without it: memory,
    /// and each store that is compiled in and whose server is installed, which is started privately
    #[arg(long, value_name = "URL")]
    pub(crate) lock: Vec<String>,

    /// Write a page with everything, which loads nothing from elsewhere
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write the picture at the top of the page, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,

    /// Measure for a minute or two only; the figures are less steady
    #[arg(long)]
    quick: bool,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Be a worker of the comparison that listens at this address
    #[arg(long, hide = true, value_name = "ADDRESS", requires = "instance")]
    serve: Option<SocketAddr>,

    /// Which worker to be
    #[arg(long, hide = true, value_name = "N", requires = "serve")]
    instance: Option<u32>,
}

impl Arguments {
    /// How long everything is measured.
    pub(crate) fn plan(&self) -> Plan {
        match self.quick {
            true => Plan::QUICK,
            false => Plan::FULL,
        }
    }

    /// Which worker this process is to be, and where the comparison listens that started it.
    pub(crate) fn serves(&self) -> Option<(u32, SocketAddr)> {
        self.instance.zip(self.serve)
    }
}
