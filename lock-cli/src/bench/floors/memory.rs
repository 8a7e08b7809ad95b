//! The floor in memory: tokio's mutex.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::bench::laps::Lap;
use crate::problem::Problem;

/// A mutex that its clones share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedMutex(Arc<Mutex<()>>);

impl SharedMutex {
    /// Returns `count` clones of one mutex.
    pub(crate) fn clones(count: u32) -> Vec<Self> {
        let one = Self::default();
        (0..count).map(|_| one.clone()).collect()
    }
}

impl Lap for SharedMutex {
    async fn lap(&mut self) -> Result<(), Problem> {
        drop(self.0.lock().await);
        Ok(())
    }
}
