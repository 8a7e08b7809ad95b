//! An instance as a process: this program again, started with the address of the headquarters.

use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

use tokio::process::Command;

use crate::client::Client;
use crate::crash::{CRASHED, CrashBy, End};
use crate::instance;
use crate::problem::Problem;
use crate::wire::Connection;

/// Starts instance `number` and waits for its end.
pub(super) async fn run(number: u32, headquarters: SocketAddr) -> Result<End, Problem> {
    let mut process = Command::new(std::env::current_exe()?)
        .args(["--serve", &headquarters.to_string()])
        .args(["--instance", &number.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let status = process.wait().await?;
    if status.success() {
        Ok(End::Finished)
    } else if status.code() == Some(CRASHED.into()) {
        Ok(End::Crashed)
    } else {
        Err(format!("instance {number} ended with a problem: {status}").into())
    }
}

/// What that process does.
pub(crate) async fn serve_in_process(
    number: u32,
    headquarters: SocketAddr,
) -> Result<ExitCode, Problem> {
    let connection = Connection::open(headquarters).await?;
    let client = Client::over(Arc::new(connection));
    let end = instance::serve(number, client, CrashBy::EndingTheProcess).await?;
    Ok(end.into())
}
