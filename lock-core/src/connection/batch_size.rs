//! The number of requests that travel together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of requests that a client sends together, as far as its servers have shown.
///
/// Servers limit the size of a request and rarely say how, so the number is halved each time that a
/// batch is refused for its size. Clones share it.
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
    /// Starts with `largest`.
    pub fn new(largest: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(largest)))
    }

    /// Returns how many requests the next batch may have, at least 1.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Halves the number after a batch of `refused` requests was too large; false if that was a
    /// single one.
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
