//! How much is measured, and for how long.

use std::time::Duration;

/// The processes that want the hot key, and the tasks in each. On memory they are threads.
pub(crate) const PROCESSES: u32 = 3;
pub(crate) const TASKS: u32 = 4;

/// The tasks of one process that take locks which nobody else wants.
pub(crate) const TASKS_TOGETHER: u32 = 8;

/// The ttl of what is lost with its holder, where the store can have it so short.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// The amounts of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How long one task takes free locks, and then several do.
    pub(crate) free: Duration,
    /// How long the crowd is at the hot key, with and without handing it on within a process.
    pub(crate) hot: Duration,
    /// How many holders are killed.
    pub(crate) killed: u32,
    /// The arguments of the coupon rush and of the refunds.
    pub(crate) coupon: &'static [&'static str],
    pub(crate) refund: &'static [&'static str],
    /// Whether what spends most of its time waiting for a ttl does that together.
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
