//! Where an instance lives: in a thread of this process, or in a process of its own.

mod process;
mod thread;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::crash::End;
use crate::headquarters::Headquarters;
use crate::problem::Problem;

pub(crate) use process::serve_in_process;

/// Starts instances and tells how they ended.
#[derive(Clone)]
pub(crate) enum Host {
    Threads(Arc<Headquarters>),
    /// The headquarters listens at this address.
    Processes(SocketAddr),
}

impl Host {
    /// Runs instance `number` to its end.
    pub(crate) async fn run(&self, number: u32) -> Result<End, Problem> {
        match self {
            Self::Threads(headquarters) => thread::run(number, Arc::clone(headquarters)).await,
            Self::Processes(headquarters) => process::run(number, *headquarters).await,
        }
    }
}
