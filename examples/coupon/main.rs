//! The coupon rush: few coupons, many buyers, several instances of the shop's service.
//!
//! It compares fourteen ways to keep the sale correct. Eleven of them have known flaws, and each
//! meets the accident that breaks it. The last three use polylock as it is meant: one lock, two keys
//! together, and a lock inside a lock. They meet all of these accidents.
//!
//! ```text
//! cargo run --release --example coupon
//! cargo run --release --example coupon --features redis -- --lock redis://127.0.0.1:6379
//! cargo run --release --example coupon --features mysql -- --lock mysql://root@127.0.0.1/test
//! cargo run --release --example coupon --features etcd -- --lock etcd://127.0.0.1:2379
//! cargo run --release --example coupon --features zookeeper -- --lock zookeeper://127.0.0.1:2181
//! ```

#[path = "mod.rs"]
mod coupon;
#[path = "../stage/mod.rs"]
mod stage;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    coupon::main().await
}
