//! The cost of the keeper, the queue, the hand-off and the memory backend, without a store.
//!
//! Run with `cargo bench -p lock-core`. `polylock bench` measures locks on a store.

mod hand_off;
mod keeper;
mod memory;
mod queue;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    queue::bench,
    memory::bench,
    hand_off::bench,
    keeper::bench
);
criterion_main!(benches);
