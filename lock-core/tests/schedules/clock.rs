//! The time of the world, and the clocks of its processes.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, advance};

/// Time since the start of the world, by the server's clock.
pub(crate) type Time = Duration;

/// The clock of one process: the paused clock of its runtime, which the test moves. Its rate
/// differs from the server's by up to 1 %.
#[derive(Clone, Debug)]
pub(crate) struct ProcessClock {
    runtime: Handle,
    /// Start of the process, by its own clock.
    start: Instant,
    born: Time,
    /// Seconds that it shows in 100 seconds.
    rate: u32,
}

impl ProcessClock {
    pub(crate) fn new(runtime: Handle, born: Time, rate: u32) -> Self {
        let inside = runtime.enter();
        let start = Instant::now();
        drop(inside);
        Self {
            runtime,
            start,
            born,
            rate,
        }
    }

    /// Moves the process's clock to `now` and calls `action` in its runtime. No task of the process
    /// runs.
    pub(crate) fn at<T>(&self, now: Time, action: impl FnOnce() -> T) -> T {
        let _inside = self.runtime.enter();
        let shown = self.start + (now - self.born) * self.rate / 100;
        let ahead = shown - Instant::now();
        assert!(
            Instant::now() <= shown,
            "the process's clock moved by itself"
        );
        // The first poll moves the clock; a second poll would let the runtime work.
        let moving = pin!(advance(ahead));
        let _pending = moving.poll(&mut Context::from_waker(Waker::noop()));
        action()
    }
}
