//! The size of the transactions that servers take.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest number of operations in one transaction; servers allow 128 by default.
const LARGEST: usize = 100;

/// Number of operations that the servers are known to take in one transaction.
///
/// Servers limit operations (`--max-txn-ops`) and bytes (`--max-request-bytes`), and report neither
/// limit. So the number is halved whenever a batch is refused for its size.
#[derive(Debug)]
pub(crate) struct BatchSize(AtomicUsize);

impl BatchSize {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(LARGEST))
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that a batch of `size` was too large.
    pub(crate) fn was_too_large(&self, size: usize) {
        self.0.fetch_min((size / 2).max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_halved_until_one_is_left() {
        let size = BatchSize::new();
        let mut sizes = Vec::new();
        while size.get() > 1 {
            size.was_too_large(size.get());
            sizes.push(size.get());
        }
        assert_eq!(sizes, [50, 25, 12, 6, 3, 1]);
        size.was_too_large(100);
        assert_eq!(size.get(), 1, "a late refusal raises nothing");
    }
}
