//! The time of the world, and the clocks of the processes in it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, advance};

/// Time since the beginning of the world, as the server's clock shows it.
pub(crate) type Time = Duration;

/// The clock of one process: its runtime's, which is paused and moved by hand. It runs faster or slower
/// than the server's by up to 1 %.
#[derive(Clone, Debug)]
pub(crate) struct ProcessClock {
    runtime: Handle,
    /// The process's start, on its own clock and on the world's.
    start: Instant,
    born: Time,
    /// What it shows of 100 seconds.
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

    /// Does `action` in the process, with its clock at `now`. Nothing else of the process runs.
    pub(crate) fn at<T>(&self, now: Time, action: impl FnOnce() -> T) -> T {
        let _inside = self.runtime.enter();
        let shown = self.start + (now - self.born) * self.rate / 100;
        let ahead = shown - Instant::now();
        assert!(
            Instant::now() <= shown,
            "the process's clock moved by itself"
        );
        // Its first poll moves the clock, the rest would let the runtime work.
        let moving = pin!(advance(ahead));
        let _pending = moving.poll(&mut Context::from_waker(Waker::noop()));
        action()
    }
}
