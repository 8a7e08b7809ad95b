//! An instance as a process: this program again, started with the address of the headquarters.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

use tokio::process::Command;

use super::Instance;
use crate::stage::crash::{CRASHED, CrashBy, End};
use crate::stage::problem::Problem;
use crate::stage::wire::Connection;

/// The signal SIGKILL, which counts as a crash.
const KILLED: i32 = 9;

/// Starts instance `number` and waits for its end.
pub(super) async fn run(number: u32, headquarters: SocketAddr) -> Result<End, Problem> {
    // The program may contain several examples, which it tells apart by its name.
    let name = std::env::args_os().next().unwrap_or_default();
    let mut process = Command::new(std::env::current_exe()?)
        .arg0(name)
        .args(["--serve", &headquarters.to_string()])
        .args(["--instance", &number.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let status = process.wait().await?;
    if status.success() {
        Ok(End::Finished)
    } else if status.code() == Some(CRASHED.into()) || status.signal() == Some(KILLED) {
        Ok(End::Crashed)
    } else {
        Err(format!("instance {number} ended with a problem: {status}").into())
    }
}

/// Serves as an instance in a process that [`run`] has started.
pub(crate) async fn serve_in_process<I: Instance>(
    number: u32,
    headquarters: SocketAddr,
) -> Result<ExitCode, Problem> {
    let connection = Connection::open(headquarters).await?;
    let end = I::serve(number, Arc::new(connection), CrashBy::EndingTheProcess).await?;
    Ok(end.into())
}
