//! Detection of stalls: times for which no thread of this process ran.
//!
//! Virtual machines stall for a second and more while their host is busy. An overloaded machine
//! looks the same to this process.

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use lock_core::backend::{Clock, Moment};

use crate::block_thread;

const BEAT: Duration = Duration::from_millis(10);

/// The delay from which on a late wake-up of the watcher thread counts as a stall.
///
/// On a busy machine the thread waits for some time slices of other threads, which takes less.
/// Servers on the same machine are delayed even longer.
const STALL: Duration = Duration::from_millis(100);

/// Maximum wait of [`longest_since`] for the watcher thread, which a stall delays as well.
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

/// Starts the watcher thread, once per process; it runs until the process ends.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();

    WATCHED.call_once(|| {
        let watching = thread::Builder::new().name("stalls".to_owned());
        // Without the watcher no stall is noted, so every failure counts.
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

/// Returns the longest stall since `begin`, if there was any.
pub(crate) fn longest_since(begin: Moment) -> Option<Duration> {
    let now = Clock::Boot.now();
    // The caller may run before the watcher, which has yet to note a stall that has just ended.
    let is_behind = |notes: &mut Notes| notes.last_beat.is_none_or(|beat| beat < now);
    let waited = BEATEN.wait_timeout_while(notes(), WATCHER_LIMIT, is_behind);
    let (notes, _) = waited.unwrap_or_else(PoisonError::into_inner);
    let since = notes.stalls.iter().filter(|stall| stall.end >= begin);
    since.map(|stall| stall.length).max()
}

/// Returns the start and the end of each stall since `begin`, in nanoseconds.
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
