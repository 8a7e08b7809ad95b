//! Whether the thread that tells losses got to run at all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::backend::KeeperRuntime;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// A tick that comes later than this is a stall.
const STALL: Duration = Duration::from_millis(6);

/// Ticks on the keeper thread every millisecond, and notes when it could not.
///
/// A machine that is busy enough stops a thread for longer than the margin between the loss and the
/// next grant. Nothing can be told then, and no test should say that it was told too late.
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

    /// Whether the thread stood still at some time between the two.
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
