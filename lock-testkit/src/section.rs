//! A critical section that detects concurrent holders.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use lock_core::Mode;

use crate::assert_excluded;

/// A resource behind a lock: a counter that is read, and later written back with 1 added.
///
/// Two concurrent holders lose updates, whatever their guards say.
#[derive(Debug, Default)]
pub(crate) struct Section {
    exclusive: AtomicI64,
    shared: AtomicI64,
    upgradeable: AtomicI64,
    permits: AtomicI64,
    counter: AtomicU64,
}

impl Section {
    /// Works in the section in `mode` for a short time; panics if a conflicting holder is inside.
    pub(crate) async fn enter(&self, mode: Mode, random: &mut fastrand::Rng) {
        let mine = match mode {
            Mode::Shared => &self.shared,
            Mode::Upgradeable => &self.upgradeable,
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
        let counts = [
            &self.exclusive,
            &self.shared,
            &self.upgradeable,
            &self.permits,
        ];
        let [exclusive, shared, upgradeable, permits] =
            counts.map(|count| count.load(Ordering::SeqCst));
        let readers = shared + upgradeable;
        let fits = match mode {
            Mode::Shared => exclusive == 0 && permits == 0 && upgradeable <= 1,
            Mode::Upgradeable => exclusive == 0 && permits == 0 && upgradeable == 1,
            Mode::Permit { of } => exclusive == 0 && readers == 0 && permits <= i64::from(of.get()),
            _ => exclusive == 1 && readers == 0 && permits == 0,
        };
        assert_excluded!(
            fits,
            "{exclusive} exclusive, {shared} shared, {upgradeable} upgradeable and {permits} permit \
             holders at once, seen by a holder of {mode:?}"
        );
    }

    /// Returns the number of exclusive visits that were counted.
    pub(crate) fn counter(&self) -> u64 {
        self.counter.load(Ordering::SeqCst)
    }
}
