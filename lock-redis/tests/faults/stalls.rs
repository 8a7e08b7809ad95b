//! A record of the times at which the keeper thread did not run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::backend::KeeperRuntime;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// The delay from which a tick counts as a stall.
const STALL: Duration = Duration::from_millis(6);

/// A task that ticks on the keeper thread every millisecond and notes missed ticks.
///
/// A busy machine stops a thread for longer than the time between the loss and the next grant. The
/// thread can report no loss in that time, so a test must not count that report as late.
pub(crate) struct Metronome {
    stalls: Arc<Mutex<Vec<(Instant, Instant)>>>,
    ticking: AbortHandle,
}

impl Metronome {
    pub(crate) fn start() -> Self {
        let stalls = Arc::<Mutex<Vec<_>>>::default();
        let noted = Arc::clone(&stalls);
        let ticking = async move {
            let mut last = Instant::now();
            loop {
                sleep(Duration::from_millis(1)).await;
                let now = Instant::now();
                if now - last > STALL {
                    noted
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((last, now));
                }
                last = now;
            }
        };
        let keeper_runtime = KeeperRuntime::thread().expect("it runs");
        let ticking = keeper_runtime
            .spawn(ticking)
            .expect("it runs")
            .abort_handle();
        Self { stalls, ticking }
    }

    /// Returns true if the thread stood still at some time between `from` and `to`.
    pub(crate) fn stalled(&self, from: Instant, to: Instant) -> bool {
        let stalls = self.stalls.lock().unwrap_or_else(PoisonError::into_inner);
        stalls
            .iter()
            .any(|(begin, end)| *begin <= to && from <= *end)
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.ticking.abort();
    }
}
