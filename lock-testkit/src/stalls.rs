//! Detection of stalls: times for which no thread of this process ran, or no write reached the disk.
//!
//! Virtual machines stall for a second and more while their host is busy. An overloaded machine
//! looks the same to this process. A disk that is still writing what was compiled before holds up
//! the commits of every server whose data is there.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
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

/// The pause between two writes of the thread that watches a disk.
const WRITE_PAUSE: Duration = Duration::from_millis(200);

/// The time from which on a synchronous write counts as a stall of the disk. Servers commit with
/// several writes, one after the other.
const DISK_STALL: Duration = Duration::from_millis(300);

/// Maximum wait of [`longest_since`] for the watcher thread, which a stall delays as well.
const WATCHER_LIMIT: Duration = Duration::from_secs(5);

static NOTES: Mutex<Notes> = Mutex::new(Notes {
    last_beat: None,
    stalls: Vec::new(),
    disk_stalls: Vec::new(),
    writes: Vec::new(),
});

static BEATEN: Condvar = Condvar::new();

struct Notes {
    last_beat: Option<Moment>,
    stalls: Vec<Stall>,
    disk_stalls: Vec<Stall>,
    /// For each watched disk, when the write began that is under way.
    writes: Vec<Option<Moment>>,
}

struct Stall {
    end: Moment,
    length: Duration,
}

/// Starts the watcher threads, once per process; they run until the process ends.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();

    WATCHED.call_once(|| {
        let watching = thread::Builder::new().name("stalls".to_owned());
        // Without the watcher no stall is noted, so every failure counts.
        let _unwatched = watching.spawn(note_stalls);
    });
}

/// Watches the disk of `directory`, in which servers keep their data, until the process ends.
pub(crate) fn watch_disk(directory: &Path) {
    let mut notes = notes();
    let disk = notes.writes.len();
    notes.writes.push(None);
    drop(notes);
    let directory = directory.to_owned();
    let watching = thread::Builder::new().name("disk stalls".to_owned());
    let _unwatched = watching.spawn(move || {
        if let Err(error) = note_disk_stalls(disk, &directory) {
            eprintln!("{} is not watched: {error}", directory.display());
        }
    });
}

/// Writes to a file without a name in `directory`, again and again.
fn note_disk_stalls(disk: usize, directory: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(directory)?;
    loop {
        block_thread(WRITE_PAUSE);
        let begin = Clock::Boot.now();
        notes().writes[disk] = Some(begin);
        let written = write_through(&mut file);
        let end = Clock::Boot.now();
        let length = end.since(begin);
        let mut notes = notes();
        notes.writes[disk] = None;
        if length > DISK_STALL {
            notes.disk_stalls.push(Stall { end, length });
        }
        drop(notes);
        written?;
    }
}

fn write_through(file: &mut File) -> io::Result<()> {
    file.rewind()?;
    file.write_all(b"still here")?;
    file.sync_data()
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

/// Returns the longest stall since `begin`, of the process or of a disk, if there was any.
pub(crate) fn longest_since(begin: Moment) -> Option<Duration> {
    let now = Clock::Boot.now();
    // The caller may run before the watcher, which has yet to note a stall that has just ended.
    let is_behind = |notes: &mut Notes| notes.last_beat.is_none_or(|beat| beat < now);
    let waited = BEATEN.wait_timeout_while(notes(), WATCHER_LIMIT, is_behind);
    let (notes, _) = waited.unwrap_or_else(PoisonError::into_inner);
    let stalls = notes.stalls.iter().chain(&notes.disk_stalls);
    let ended = stalls.filter(|stall| stall.end >= begin);
    let under_way = notes.writes.iter().flatten().map(|write| now.since(*write));
    ended
        .map(|stall| stall.length)
        .chain(under_way.filter(|length| *length > DISK_STALL))
        .max()
}

/// Returns the start and the end of each stall of the process since `begin`, in nanoseconds.
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
