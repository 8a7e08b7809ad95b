//! What the pieces of the library cost by themselves, without a store: the keeper with many holds, the queue,
//! the hand-off and the memory backend.
//!
//! `cargo bench -p lock-core`. What a lock costs on a store tells `polylock bench`.

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
