//! Whether the machine stood still: virtual machines do, for a second and more, when their host is busy. One
//! that is too busy itself looks the same from here.

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use lock_core::backend::{Clock, Moment};

use crate::block_thread;

const BEAT: Duration = Duration::from_millis(10);

/// How late a thread that does nothing else may wake up. A busy machine makes it wait for some of the time
/// slices of the others, not for that long; and servers beside it stand still even longer.
const STALL: Duration = Duration::from_millis(100);

/// How long somebody who asks waits for a watcher that does not get its turn: that is a stall by itself.
const WATCHER_LIMIT: Duration = Duration::from_secs(5);

static NOTES: Mutex<Notes> = Mutex::new(Notes {
    last_beat: None,
    stalls: Vec::new(),
});

static BEATEN: Condvar = Condvar::new();

struct Notes {
    last_beat: Option<Moment>,
    stalls: Vec<Stall>,
}

struct Stall {
    end: Moment,
    length: Duration,
}

/// Watches the machine from now on, until the process ends.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();

    WATCHED.call_once(|| {
        let watching = thread::Builder::new().name("stalls".to_owned());
        // Without it every failure counts.
        let _unwatched = watching.spawn(note_stalls);
    });
}

fn note_stalls() {
    let mut last = Clock::Boot.now();
    loop {
        block_thread(BEAT);
        let end = Clock::Boot.now();
        let length = end.since(last);
        last = end;
        let mut notes = notes();
        notes.last_beat = Some(end);
        if length > BEAT + STALL {
            notes.stalls.push(Stall { end, length });
        }
        BEATEN.notify_all();
    }
}

/// How long the machine stood still at most at a time, if it did since `begin`.
pub(crate) fn longest_since(begin: Moment) -> Option<Duration> {
    let now = Clock::Boot.now();
    // Whoever asks may have got its turn before the watcher, which has yet to note what has just ended.
    let is_behind = |notes: &mut Notes| notes.last_beat.is_none_or(|beat| beat < now);
    let waited = BEATEN.wait_timeout_while(notes(), WATCHER_LIMIT, is_behind);
    let (notes, _) = waited.unwrap_or_else(PoisonError::into_inner);
    let since = notes.stalls.iter().filter(|stall| stall.end >= begin);
    since.map(|stall| stall.length).max()
}

/// When the machine stood still since `begin`: from when until when.
pub(crate) fn all_since(begin: Moment) -> Vec<(u64, u64)> {
    let nanoseconds = |stall: &Stall| {
        let end = stall.end.nanoseconds().unsigned_abs();
        let length = u64::try_from(stall.length.as_nanos()).unwrap_or(end);
        (end.saturating_sub(length), end)
    };
    let notes = notes();
    let since = notes.stalls.iter().filter(|stall| stall.end >= begin);
    since.map(nanoseconds).collect()
}

fn notes() -> MutexGuard<'static, Notes> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}
