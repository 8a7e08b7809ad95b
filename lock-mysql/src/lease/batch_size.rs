//! The number of rows that one packet asks for.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of rows in a packet: halved each time that a server refuses one for its size.
#[derive(Debug)]
pub(crate) struct BatchSize(AtomicUsize);

impl BatchSize {
    pub(crate) const fn new(most: usize) -> Self {
        Self(AtomicUsize::new(most))
    }

    /// Returns how many rows the next packet may ask for, at least 1.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Halves the size after a packet of `refused` rows was too large; false if that was a single row.
    pub(crate) fn halve(&self, refused: usize) -> bool {
        if refused > 1 {
            self.0.fetch_min(refused.div_ceil(2), Ordering::Relaxed);
        }
        refused > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_halved_until_it_is_one_row() {
        let size = BatchSize::new(200);
        let mut sizes = Vec::new();
        while size.halve(size.get()) {
            sizes.push(size.get());
        }
        assert_eq!(sizes, [100, 50, 25, 13, 7, 4, 2, 1]);
        assert!(!size.halve(1));
    }
}
