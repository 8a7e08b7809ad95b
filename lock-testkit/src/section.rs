//! A critical section that knows when it was entered by two at once.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use lock_core::Mode;

use crate::assert_excluded;

/// What a lock protects: a counter that is read, and written back one higher after a while. It
/// loses updates as soon as two are at it, whatever they believe to hold.
#[derive(Debug, Default)]
pub(crate) struct Section {
    exclusive: AtomicI64,
    shared: AtomicI64,
    permits: AtomicI64,
    counter: AtomicU64,
}

impl Section {
    /// Does what may be done in `mode`, and panics when someone is there who must not be.
    pub(crate) async fn enter(&self, mode: Mode, random: &mut fastrand::Rng) {
        let mine = match mode {
            Mode::Shared => &self.shared,
            Mode::Permit { .. } => &self.permits,
            _ => &self.exclusive,
        };
        mine.fetch_add(1, Ordering::SeqCst);
        let seen = self.counter.load(Ordering::SeqCst);
        self.check(mode);
        match random.u32(0..4) {
            0 => tokio::time::sleep(Duration::from_micros(random.u64(0..2_000))).await,
            _ => tokio::task::yield_now().await,
        }
        self.check(mode);
        if mode == Mode::Exclusive {
            self.counter.store(seen + 1, Ordering::SeqCst);
        }
        mine.fetch_sub(1, Ordering::SeqCst);
    }

    fn check(&self, mode: Mode) {
        let [exclusive, shared, permits] = [&self.exclusive, &self.shared, &self.permits]
            .map(|count| count.load(Ordering::SeqCst));
        let fits = match mode {
            Mode::Shared => exclusive == 0 && permits == 0,
            Mode::Permit { of } => exclusive == 0 && shared == 0 && permits <= i64::from(of.get()),
            _ => exclusive == 1 && shared == 0 && permits == 0,
        };
        assert_excluded!(
            fits,
            "{exclusive} exclusive, {shared} shared and {permits} permit \
             holders at once, seen by a holder of {mode:?}"
        );
    }

    /// How many exclusive visits have left their mark.
    pub(crate) fn counter(&self) -> u64 {
        self.counter.load(Ordering::SeqCst)
    }
}
