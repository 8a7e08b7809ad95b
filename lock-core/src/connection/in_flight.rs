//! Counting what is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of requests that are under way, for a backend that lets those that come meanwhile
/// travel together.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<AtomicUsize>);

/// One request of [`InFlight`], under way until this is dropped.
#[derive(Debug)]
pub struct OneInFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Counts one more, and says how many others are under way.
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
