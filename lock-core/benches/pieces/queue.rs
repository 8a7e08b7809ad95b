//! The cost of finding the claim that blocks the last claim of a queue.

use criterion::{BenchmarkId, Criterion};
use lock_core::Mode;
use lock_core::backend::blocking_claim;

pub(crate) fn bench(criterion: &mut Criterion) {
    let permit = Mode::permit(1_000_000).expect("more than zero");
    let mut group = criterion.benchmark_group("queue");
    for length in [10, 1000] {
        for (name, mode) in [
            ("exclusive", Mode::Exclusive),
            ("shared", Mode::Shared),
            ("permit", permit),
        ] {
            let modes = vec![mode; length];
            let id = BenchmarkId::new(name, length);
            group.bench_with_input(id, &modes, |bencher, modes| {
                bencher.iter(|| blocking_claim(modes, length - 1));
            });
        }
    }
}
