//! The place where an instance runs: a thread of this process, or a process of its own.

mod process;
mod thread;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::crash::{CrashBy, End};
use super::problem::Problem;
use super::wire::Server;
use super::{Message, Transport};

pub(crate) use process::serve_in_process;

/// A service that runs in several instances.
pub(crate) trait Instance: 'static {
    /// A call of an instance to the headquarters.
    type Call: Message;
    /// The reply to a call.
    type Reply: Message;

    /// Serves as instance `number` until all work is done or the instance crashes.
    fn serve(
        number: u32,
        headquarters: Arc<dyn Transport<Self::Call, Self::Reply>>,
        crash_by: CrashBy,
    ) -> impl Future<Output = Result<End, Problem>>;
}

/// A place that runs instances and reports their ends.
enum Host<I: Instance> {
    Threads(Arc<dyn Transport<I::Call, I::Reply>>),
    /// The headquarters listens at this address.
    Processes(SocketAddr),
}

impl<I: Instance> Clone for Host<I> {
    fn clone(&self) -> Self {
        match self {
            Self::Threads(headquarters) => Self::Threads(Arc::clone(headquarters)),
            Self::Processes(headquarters) => Self::Processes(*headquarters),
        }
    }
}

impl<I: Instance> Host<I> {
    /// Runs instance `number` to its end.
    async fn run(self, number: u32) -> Result<End, Problem> {
        match self {
            Self::Threads(headquarters) => thread::run::<I>(number, headquarters).await,
            Self::Processes(headquarters) => process::run(number, headquarters).await,
        }
    }
}

/// Runs `instances` until each has finished. Restarts a crashed instance, like a service manager.
pub(crate) async fn run_instances<I: Instance>(
    instances: u32,
    in_processes: bool,
    headquarters: Arc<dyn Transport<I::Call, I::Reply>>,
) -> Result<(), Problem> {
    let server = match in_processes {
        true => Some(Server::start(Arc::clone(&headquarters)).await?),
        false => None,
    };
    let host: Host<I> = match &server {
        Some(server) => Host::Processes(server.address),
        None => Host::Threads(headquarters),
    };
    let mut running = JoinSet::new();
    let start = |running: &mut JoinSet<_>, number| {
        let host = host.clone();
        running.spawn(async move { (number, host.run(number).await) });
    };
    for number in 0..instances {
        start(&mut running, number);
    }
    while let Some(ended) = running.join_next().await {
        let (number, end) = ended?;
        if end? == End::Crashed {
            start(&mut running, number);
        }
    }
    Ok(())
}
