//! The number of requests in one batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of requests in one batch, as learned from the servers.
///
/// Servers limit the size of a request and rarely announce the limit. So the number is halved when
/// a server rejects a batch for its size. Clones share the number.
///
/// ```
/// use lock_core::backend::BatchSize;
///
/// let size = BatchSize::new(100);
/// assert!(size.halve(size.get()));
/// assert_eq!(size.get(), 50);
/// ```
#[derive(Clone, Debug)]
pub struct BatchSize(Arc<AtomicUsize>);

impl BatchSize {
    /// Creates a batch size that starts at `largest`.
    pub fn new(largest: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(largest)))
    }

    /// Returns the maximum number of requests of the next batch, at least 1.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Halves the size after a batch of `refused` requests was too large; false if that was one
    /// request.
    pub fn halve(&self, refused: usize) -> bool {
        self.0.fetch_min((refused / 2).max(1), Ordering::Relaxed);
        refused > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_halved_until_one_is_left() {
        let size = BatchSize::new(100);
        let mut sizes = Vec::new();
        while size.halve(size.get()) {
            sizes.push(size.get());
        }
        assert_eq!(sizes, [50, 25, 12, 6, 3, 1]);
        assert!(size.halve(100), "a late refusal of many");
        assert_eq!(size.get(), 1, "raises nothing");
    }
}
