//! An instance as a thread with a runtime of its own, so that it can crash alone.

use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::Instance;
use crate::stage::Transport;
use crate::stage::crash::{CrashBy, End};
use crate::stage::problem::Problem;

/// Runs instance `number` to its end.
pub(super) async fn run<I: Instance>(
    number: u32,
    headquarters: Arc<dyn Transport<I::Call, I::Reply>>,
) -> Result<End, Problem> {
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name(format!("instance-{number}"))
        .spawn(move || {
            // The receiver is gone if the run was given up.
            let _unheard = sender.send(serve::<I>(number, headquarters));
        })?;
    ended.await?
}

fn serve<I: Instance>(
    number: u32,
    headquarters: Arc<dyn Transport<I::Call, I::Reply>>,
) -> Result<End, Problem> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let end = runtime.block_on(I::serve(number, headquarters, CrashBy::StoppingTheRuntime));
    // Dropping the runtime ends the task that renews this instance's locks. Then the ttl frees a
    // lock that a crash left behind.
    drop(runtime);
    end
}
