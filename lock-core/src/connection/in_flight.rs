//! A counter of pending requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of pending requests, for a backend that batches requests while one is pending.
///
/// ```
/// use lock_core::backend::InFlight;
///
/// let in_flight = InFlight::default();
/// let (others, first) = in_flight.enter();
/// assert_eq!(others, 0);
/// assert_eq!(in_flight.enter().0, 1);
/// drop(first);
/// ```
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<AtomicUsize>);

/// One request of an [`InFlight`], pending until this value is dropped.
#[derive(Debug)]
pub struct OneInFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Adds a request and returns the number of other pending ones.
    pub fn enter(&self) -> (usize, OneInFlight) {
        let others = self.0.fetch_add(1, Ordering::SeqCst);
        (others, OneInFlight(Arc::clone(&self.0)))
    }
}

impl Drop for OneInFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
