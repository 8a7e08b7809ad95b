//! An instance as a thread with a runtime of its own, so that it can crash alone.

use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::client::Client;
use crate::crash::{CrashBy, End};
use crate::headquarters::Headquarters;
use crate::instance;
use crate::problem::Problem;

/// Runs instance `number` to its end.
pub(super) async fn run(number: u32, headquarters: Arc<Headquarters>) -> Result<End, Problem> {
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name(format!("instance-{number}"))
        .spawn(move || {
            // Nobody listens any more when the run was given up.
            let _unheard = sender.send(serve(number, headquarters));
        })?;
    ended.await?
}

fn serve(number: u32, headquarters: Arc<Headquarters>) -> Result<End, Problem> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let client = Client::over(headquarters);
    let end = runtime.block_on(instance::serve(number, client, CrashBy::StoppingTheRuntime));
    // With the runtime goes the task that renews this instance's locks, so that the lock which a
    // crash left behind is freed by its ttl.
    drop(runtime);
    end
}
