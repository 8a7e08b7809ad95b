//! The amounts and durations of the measurements.

use std::time::Duration;

/// Numbers of processes that want the hot key, and of tasks in each. On memory they are threads.
pub(crate) const PROCESSES: u32 = 3;
pub(crate) const TASKS: u32 = 4;

/// Number of tasks of one process that take free locks.
pub(crate) const TASKS_TOGETHER: u32 = 8;

/// The ttl of the locks whose holders are killed, unless the store's minimum is longer.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// The amounts of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Time for which one task takes free locks, and then several tasks.
    pub(crate) free: Duration,
    /// Time for which the processes want the hot key, once with and once without hand-off.
    pub(crate) hot: Duration,
    /// Number of killed holders.
    pub(crate) killed: u32,
    /// The arguments of the coupon rush and of the refunds.
    pub(crate) coupon: &'static [&'static str],
    pub(crate) refund: &'static [&'static str],
    /// True if the measurements that mostly wait for a ttl run at the same time.
    pub(crate) together: bool,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        free: Duration::from_secs(5),
        hot: Duration::from_secs(10),
        killed: 7,
        coupon: &[],
        refund: &[],
        together: false,
    };

    pub(crate) const QUICK: Self = Self {
        free: Duration::from_secs(1),
        hot: Duration::from_millis(1500),
        killed: 3,
        coupon: &["--stock", "20", "--buyers", "60"],
        refund: &["--trades", "8", "--kills", "1"],
        together: true,
    };
}
