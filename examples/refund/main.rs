//! The refund system: peers without a manager take partial refunds of the same trades.
//!
//! The trades are paid by the same banks. Requests never wait for a lock, each bank wants a pause
//! between two payments, and peers are killed during their work. One argument selects the lock
//! store:
//!
//! ```text
//! cargo run --release --example refund
//! cargo run --release --example refund --features redis -- --lock redis://127.0.0.1:6379
//! cargo run --release --example refund --features mysql -- \
//!     --lock 'mysql://root@127.0.0.1/test?hold=row'
//! cargo run --release --example refund --features zookeeper -- --lock zookeeper://127.0.0.1:2181
//! ```

#[path = "mod.rs"]
mod refund;
#[path = "../stage/mod.rs"]
mod stage;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    refund::main().await
}
