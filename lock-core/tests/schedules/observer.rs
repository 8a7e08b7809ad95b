//! An observer of all guards, which compares them with the state of the store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{LockGuard, LockRequest, LossReason, Mode, Wait};
use lock_testkit::assert_excluded;

use crate::book::{Book, Grant, Waiting};
use crate::clock::{ProcessClock, Time};
use crate::ground::Ground;
use crate::held;
use crate::server::End;
use crate::world::LATENESS_MAX;

/// Number of events that a failure prints.
const LAST: usize = 40;

/// Maximum delay of the report of a loss. Timers have a resolution of milliseconds, and up to two
/// late checks of timers pass before the holder acts.
pub(crate) const LATE: Duration =
    Duration::from_millis(3).saturating_add(LATENESS_MAX.saturating_mul(2));

/// Maximum time by which a hold may end early: its holder's clock may be faster than the server's.
const EARLY: Duration = Duration::from_millis(3);

/// Maximum time that a key stays free while a task waits for it. It covers the longest pause
/// between two attempts, the pause after a turn, and a few messages.
const FREE_MAX: Duration = Duration::from_millis(60);

/// The observer of a world. It panics at the first violation.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) ground: Arc<dyn Ground>,
    promises: Promises,
    pub(crate) book: Mutex<Book>,
}

/// Guarantees of a world with few faults. Every world guarantees exclusion, growing tokens and
/// timely reports of losses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promises {
    /// No hold is lost, no request fails, and no waiter waits for a ttl to end.
    pub(crate) calm: bool,
    /// Waiters without a limit are served in order within each client.
    pub(crate) in_line: bool,
    /// All waiters are served in order.
    pub(crate) fair: bool,
    /// No hold is handed on inside a process.
    pub(crate) alone: bool,
    /// The store answers quickly, so that the next renewal notices a removal.
    pub(crate) answered: bool,
}

/// A guard under observation. Dropping the entry notes that the holder is about to release the
/// guard.
#[derive(Debug)]
pub(crate) struct Entry {
    observer: Arc<Observer>,
    pub(crate) number: u64,
    /// True if several guards of an owner share the grant.
    pub(crate) is_shared: bool,
}

/// A waiter under observation. Dropping the ticket ends the wait.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    observer: &'a Observer,
    arrival: u64,
    ttl: Duration,
    min_hold: Duration,
    max_hold: Option<Duration>,
}

impl Observer {
    pub(crate) fn new(ground: Arc<dyn Ground>, promises: Promises) -> Self {
        Self {
            ground,
            promises,
            book: Mutex::default(),
        }
    }

    pub(crate) fn promises(&self) -> Promises {
        self.promises
    }

    /// Returns all events so far, one per line.
    pub(crate) fn story(&self) -> Vec<String> {
        held(&self.book).story.clone()
    }

    pub(crate) fn tell(&self, what: String) {
        held(&self.book).tell(what);
    }

    pub(crate) fn time_is(&self, now: Time) {
        held(&self.book).now = now;
    }

    /// Notes that a task asks the client of number `line`.
    pub(crate) fn arrives(&self, line: usize, request: &LockRequest) -> Ticket<'_> {
        let mut book = held(&self.book);
        book.arrivals += 1;
        let (arrival, since) = (book.arrivals, book.now);
        book.waiting.push(Waiting {
            arrival,
            since,
            line,
            key: request.key.clone(),
            stands_in_line: request.mode == Mode::Exclusive && request.wait() == Wait::Forever,
        });
        Ticket {
            observer: self,
            arrival,
            ttl: request.ttl(),
            min_hold: request.min_hold(),
            max_hold: request.max_hold,
        }
    }

    /// Notes that a task of `process` has got a guard, and checks it.
    pub(crate) fn granted(
        self: &Arc<Self>,
        process: usize,
        clock: &ProcessClock,
        ticket: &Ticket<'_>,
        guard: &LockGuard,
    ) -> Entry {
        let mut book = held(&self.book);
        book.entries += 1;
        let token = guard.token().value();
        let grant = Grant {
            entry: book.entries,
            process,
            clock: clock.clone(),
            watch: guard.watch(),
            key: guard.key().clone(),
            mode: guard.mode(),
            number: token >> 14,
            deadline: book.now + guard.remaining(),
            limit: ticket.max_hold.map(|limit| book.now + limit),
            told: false,
            is_partial: false,
            late_checks: 0,
            // A limit of the hold shortens `remaining`, but renewals still follow the ttl.
            ttl: ticket.ttl.max(guard.remaining()),
        };
        book.tell(format!("{process} gets {} ({:?})", grant.key, grant.mode));
        self.assert_nobody_else(&book, &grant);
        self.assert_none_is_kept(&mut book, &grant, ticket.min_hold);
        self.assert_order(&mut book, &grant, ticket.arrival, token);
        self.assert_is_so(&grant);
        book.grants.push(grant);
        Entry {
            observer: Arc::clone(self),
            number: book.entries,
            is_shared: false,
        }
    }

    fn assert_nobody_else(&self, book: &Book, new: &Grant) {
        let mut together = vec![(new.number, new.mode)];
        for other in book.grants.iter().filter(|other| other.key == new.key) {
            let is_held = other.clock.at(book.now, || other.watch.is_held());
            // A client cannot know of a removal before its next renewal.
            if !is_held
                || self.removal_of(book, other).is_some()
                || self.removal_of(book, new).is_some()
            {
                continue;
            }
            let conflict = other.mode.conflicts_with(new.mode);
            assert_excluded!(!conflict, "{other:?} and {new:?}");
            together.push((other.number, other.mode));
        }
        together.sort_unstable_by_key(|(number, _)| *number);
        for (before, (_, mode)) in together.iter().enumerate() {
            if let Mode::Permit { of } = mode {
                assert_excluded!(before < of.get() as usize, "too many: {together:?}");
            }
        }
    }

    fn assert_order(&self, book: &mut Book, new: &Grant, arrival: u64, token: u64) {
        let exclusive = new.mode == Mode::Exclusive;
        let was_removed = self.removal_of(book, new).is_some();
        for (key, earlier, other) in book.served.iter() {
            if *key != new.key {
                continue;
            }
            assert_ne!(*other, token, "a token is given twice");
            // If the key was removed while an answer was under way, a later grant may be observed
            // first.
            let grows = *other < token || was_removed;
            assert!(grows || !exclusive, "the token went back");
            let in_order = (earlier < &arrival) == (*other < token);
            assert!(in_order || !self.promises.fair, "overtaken: {new:?}");
        }
        book.served.push((new.key.clone(), arrival, token));
        let me = book.waiting.iter().find(|me| me.arrival == arrival);
        let Some(me) = me.filter(|me| self.promises.in_line && me.stands_in_line) else {
            return;
        };
        let overtaken = book.waiting.iter().find(|other| {
            other.arrival < arrival
                && (other.line, &other.key) == (me.line, &me.key)
                && other.stands_in_line
        });
        assert!(overtaken.is_none(), "served out of order: {overtaken:?}");
    }

    /// Asserts that the store knows this holder, or that the hold was removed.
    fn assert_is_so(&self, grant: &Grant) {
        let end = self.ground.end_of(grant.number);
        let is_so = matches!(end, None | Some(End::Removed));
        assert!(is_so, "held, although it is {end:?}: {grant:?}");
    }

    /// Notes that the holder learned of the loss, and checks time and reason.
    pub(crate) fn is_told(&self, entry: &Entry, reason: LossReason) {
        let mut book = held(&self.book);
        let now = book.now;
        let grant = book
            .grants
            .iter_mut()
            .find(|grant| grant.entry == entry.number);
        let grant = grant.expect("told while it is held");
        grant.told = true;
        match reason {
            LossReason::Expired | LossReason::TooLong => assert!(
                now + EARLY > grant.deadline || self.ground.was_shortened(grant.number),
                "lost ({reason}) before its deadline: {grant:?} at {now:?}"
            ),
            LossReason::Removed => assert!(
                self.ground.end_of(grant.number).is_some() || !self.ground.knows_ends(),
                "lost, but it is still there: {grant:?}"
            ),
            LossReason::Closed => {}
            reason => panic!("a guard that was not released was lost: {reason}"),
        }
        let expected = matches!(reason, LossReason::Closed | LossReason::TooLong);
        let is_fine = expected || !self.promises.calm;
        assert!(is_fine, "lost for nothing ({reason}): {grant:?}");
        let what = format!("{} loses {}: {reason}", grant.process, grant.key);
        let key = grant.key.clone();
        book.is_free(&key);
        book.tell(what);
    }

    /// Asserts that the store agrees with the outcome of a release. A lost guard that shared its
    /// grant does not wait for the store.
    pub(crate) fn assert_released(
        &self,
        number: u64,
        [was_held, is_shared]: [bool; 2],
        released: bool,
    ) {
        if released {
            assert!(was_held, "what was lost is called released");
            let end = self.ground.end_of(number);
            // A take that was sent twice may arrive after the removal and hold the key again.
            let is_back = end == Some(End::Removed) && !self.promises.calm;
            let is_back = is_back || held(&self.book).is_kept(number);
            let is_so = end == Some(End::Released) || is_back || !self.ground.knows_ends();
            assert!(
                is_so || !self.promises.alone,
                "called released, but {end:?}"
            );
        } else {
            let ended = self.ground.end_of(number).is_some() || !self.ground.knows_ends();
            // The store keeps what was lost before the end of its minimum hold.
            let ended = ended || held(&self.book).is_kept(number) || is_shared;
            assert!(ended, "called lost, but it is still there");
            assert!(!was_held || !self.promises.calm, "lost for nothing");
        }
    }

    /// Checks the guards of a process that has nothing left to do at this time.
    pub(crate) fn looks_at(&self, process: usize) {
        let mut book = held(&self.book);
        let now = book.now;
        for index in 0..book.grants.len() {
            let grant = &book.grants[index];
            if grant.process != process || grant.told {
                continue;
            }
            let removal = self
                .removal_of(&book, grant)
                .filter(|_| self.promises.answered);
            let deadline = grant.latest_end(now);
            let told_by = removal.map_or(deadline, |removal| removal.min(deadline));
            let is_due = now > told_by + LATE;
            // Skip the check between deadline and `LATE`: `is_held` would itself end the hold and
            // hide a late report.
            if now >= grant.deadline && !is_due {
                continue;
            }
            let left = grant.clock.at(now, || {
                grant.watch.is_held().then(|| grant.watch.remaining())
            });
            // A renewal at the last moment excuses a passed deadline, but not a removal that is
            // due.
            let removed_long_ago = removal.is_some_and(|told_by| now > told_by + LATE);
            let in_time = grant.is_partial || !is_due || (left.is_some() && !removed_long_ago);
            if !in_time && grant.late_checks > 0 {
                book.grants[index].late_checks -= 1;
                continue;
            }
            assert!(in_time, "nobody told its holder: {grant:?} at {now:?}");
            if let Some(left) = left {
                self.assert_is_so(grant);
                book.grants[index].deadline = now + left;
            }
        }
    }

    /// Checks that no waiter waits too long for a free key, when no process has anything to do.
    pub(crate) fn looks_at_waiters(&self) {
        let book = held(&self.book);
        for waiting in book.waiting.iter().filter(|_| self.promises.calm) {
            let free = book.free_since(&waiting.key);
            let since = free.map(|since| since.max(waiting.since));
            let is_served = since.is_none_or(|since| book.now < since + FREE_MAX);
            assert!(
                is_served,
                "free since {free:?}, and {waiting:?} at {:?}",
                book.now
            );
        }
    }

    /// Forgets the guards of a process that was killed.
    pub(crate) fn forgets(&self, process: usize) {
        let mut book = held(&self.book);
        book.grants.retain(|grant| grant.process != process);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut book = held(&self.observer.book);
        let ours = |grant: &Grant| grant.entry == self.number;
        if let Some(at) = book.grants.iter().position(ours) {
            let grant = book.grants.remove(at);
            book.is_free(&grant.key);
            book.tell(format!("{} gives {} back", grant.process, grant.key));
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut book = held(&self.observer.book);
        book.waiting
            .retain(|waiting| waiting.arrival != self.arrival);
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let story = self.story();
            let last = story.len().saturating_sub(LAST);
            eprintln!("{}", story[last..].join("\n"));
        }
    }
}
