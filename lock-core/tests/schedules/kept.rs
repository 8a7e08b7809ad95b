//! The observer's check of minimum holds.

use std::time::Duration;

use lock_testkit::assert_excluded;

use crate::book::{Book, Grant, Kept};
use crate::clock::Time;
use crate::observer::{LATE, Observer};

impl Observer {
    /// Asserts that the minimum holds of earlier holders are over, and notes that of the grant.
    pub(crate) fn assert_none_is_kept(&self, book: &mut Book, new: &Grant, min_hold: Duration) {
        let granted = self.ground.granted_at(new.number);
        let at = granted.unwrap_or(book.now);
        for kept in &book.kept {
            let is_before = kept.number < new.number && kept.key == new.key;
            if is_before && kept.mode.conflicts_with(new.mode) && !self.was_removed(book, new) {
                assert_excluded!(at >= kept.until, "{kept:?}, and {new:?} at {at:?}");
            }
        }
        if min_hold.is_zero() {
            return;
        }
        // The clocks of the processes differ by up to two percent. Without the time of the grant,
        // it was at most some late checks of timers ago.
        let least = min_hold.mul_f64(0.98);
        let late = if granted.is_none() { LATE } else { Time::ZERO };
        book.kept.push(Kept {
            key: new.key.clone(),
            mode: new.mode,
            number: new.number,
            until: (at + least).saturating_sub(late),
        });
    }
}
