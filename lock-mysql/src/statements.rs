//! What is sent for leases. Each function gives one packet, so one round trip, with at most one commit.
//!
//! Whoever changes a key locks its row in the locks table first and its holders after it, several rows
//! in the order of their keys: so no two of them wait for each other in a circle. The time is always
//! the server's, and read by a statement that does not wait, since `UTC_TIMESTAMP` is the time at which
//! a statement began.

use std::time::Duration;

use lock_core::{HoldId, LockKey, Mode};

use crate::layout::{FLOOR_ROW, Layout, microseconds, owner};
use crate::session::Session;
use crate::wire::GRANT_CLOCK;

pub(crate) const NOW: &str = "UTC_TIMESTAMP(6)";

/// Whether nobody has the key. One that was given back is free also when the clock has been set back to
/// before that.
const FREE: &str = "expires <= UTC_TIMESTAMP(6) OR (mode = 'x' AND owner IS NULL)";

/// Where the parts of an answer stand, counted from its end.
pub(crate) const TAKE_LOOK: usize = 2;
pub(crate) const TAKE_WRITE: usize = 1;
pub(crate) const TAKE_MANY_LOOK: usize = 6;
pub(crate) const TAKE_MANY_GRANT: usize = 1;
pub(crate) const RELEASE_WRITE: usize = 0;
pub(crate) const RELEASE_MANY_WRITE: usize = 2;

impl Layout {
    /// Takes the key if it is free, in the session's transaction. The key's row has to exist, or is
    /// made first.
    ///
    /// Where it was asked before and the answer got lost, it is ours already: the grant stays what it
    /// was, and its lease begins again, since the client counts it from the answer that it gets.
    pub(crate) fn take(&self, hold: &HoldId, new: bool) -> String {
        let create = if new {
            self.create(hold.key()) + ";"
        } else {
            String::new()
        };
        format!(
            "{create}{};COMMIT",
            match hold.mode() {
                Mode::Exclusive => self.take_exclusive(hold),
                Mode::Shared => self.take_many(hold, "locks.mode = 's'"),
                Mode::Permit { of } => {
                    let room = format!(
                        "locks.mode = 'p' AND (SELECT COUNT(*) FROM {} AS others WHERE others.k = locks.k) < {of}",
                        self.holders
                    );
                    self.take_many(hold, &room)
                }
            }
        )
    }

    /// The grant's number is told as the id of what was inserted last.
    fn take_exclusive(&self, hold: &HoldId) -> String {
        let (locks, key, owner) = (&self.locks, self.key(hold.key()), owner(hold.owner()));
        let ttl = microseconds(hold.ttl());
        format!(
            "SELECT 1 FROM {locks} WHERE k = {key} FOR UPDATE;
UPDATE {locks} SET mode = 'x', token = LAST_INSERT_ID(IF(owner <=> {owner} AND expires > {NOW}, token, GREATEST(token + 1, {GRANT_CLOCK}))), owner = {owner}, ttl = {ttl}, expires = {NOW} + INTERVAL {ttl} MICROSECOND WHERE k = {key} AND ({FREE} OR owner = {owner})"
        )
    }

    /// One more holder, where the key is free or there is `room` beside the others. `expires` of the
    /// locks table is when the last of them expires.
    fn take_many(&self, hold: &HoldId, room: &str) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let (key, owner) = (self.key(hold.key()), owner(hold.owner()));
        let ttl = microseconds(hold.ttl());
        let mode = match hold.mode() {
            Mode::Exclusive => 'x',
            Mode::Shared => 's',
            Mode::Permit { .. } => 'p',
        };
        format!(
            "SELECT k FROM {locks} WHERE k = {key} FOR UPDATE;
DELETE FROM {holders} WHERE k = {key} AND expires <= {NOW};
UPDATE {holders} SET expires = {NOW} + INTERVAL {ttl} MICROSECOND WHERE k = {key} AND owner = {owner};
INSERT INTO {holders} (k, owner, token, ttl, expires)
SELECT k, {owner}, GREATEST(token + 1, {GRANT_CLOCK}), {ttl}, {NOW} + INTERVAL {ttl} MICROSECOND FROM {locks} AS locks
WHERE k = {key} AND ({FREE} OR {room})
ON DUPLICATE KEY UPDATE {holders}.ttl = {holders}.ttl;
UPDATE {locks} AS locks STRAIGHT_JOIN {holders} AS mine ON mine.k = locks.k AND mine.owner = {owner}
SET locks.expires = IF(locks.mode = 'x' AND locks.owner IS NULL, mine.expires, GREATEST(locks.expires, mine.expires)), locks.mode = '{mode}', locks.owner = NULL, locks.token = GREATEST(locks.token, mine.token)
WHERE locks.k = {key};
SELECT token FROM {holders} WHERE k = {key} AND owner = {owner}"
        )
    }

    /// Makes the row of a key that is new in the table. Its numbers go on where those of a row that was
    /// purged had ended.
    pub(crate) fn create(&self, key: &LockKey) -> String {
        let (locks, key) = (&self.locks, self.key(key));
        format!(
            "INSERT INTO {locks} (k, token, expires) SELECT {key}, GREATEST(COALESCE(MAX(purged.token), 0), {GRANT_CLOCK}), {NOW} FROM {locks} AS purged WHERE purged.k = {FLOOR_ROW} ON DUPLICATE KEY UPDATE {locks}.mode = {locks}.mode"
        )
    }

    /// Prolongs `holds`, and answers which of them are there.
    pub(crate) fn renew(&self, holds: &[HoldId]) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let exclusive = Some(listed(self, holds, true)).filter(|listed| !listed.is_empty());
        let many = Some(listed(self, holds, false)).filter(|listed| !listed.is_empty());
        let mut statements = Vec::new();
        if let Some(Listed { keys, owners }) = exclusive {
            let held = format!("k IN ({keys}) AND owner IN ({owners}) AND expires > {NOW}");
            statements.push(format!(
                "UPDATE {locks} SET expires = {NOW} + INTERVAL ttl MICROSECOND WHERE {held}"
            ));
            statements.push(format!("SELECT owner FROM {locks} WHERE {held}"));
        }
        if let Some(Listed { keys, owners }) = many {
            statements.push(format!(
                "UPDATE {locks} AS locks STRAIGHT_JOIN {holders} AS mine ON mine.k = locks.k
SET mine.expires = {NOW} + INTERVAL mine.ttl MICROSECOND, locks.expires = GREATEST(locks.expires, {NOW} + INTERVAL mine.ttl MICROSECOND)
WHERE locks.k IN ({keys}) AND locks.mode <> 'x' AND mine.owner IN ({owners}) AND mine.expires > {NOW}"
            ));
            statements.push(format!(
                "SELECT mine.owner FROM {locks} AS locks JOIN {holders} AS mine ON mine.k = locks.k WHERE locks.k IN ({keys}) AND locks.mode <> 'x' AND mine.owner IN ({owners}) AND mine.expires > {NOW}"
            ));
        }
        statements.join(";")
    }

    /// Answers the rows of `holds` that are there, and then those of them that nobody has locked.
    pub(crate) fn find_locked(&self, holds: &[HoldId]) -> String {
        let locks = &self.locks;
        let keys: Vec<String> = holds.iter().map(|hold| self.key(hold.key())).collect();
        let find = format!("SELECT k FROM {locks} WHERE k IN ({})", keys.join(", "));
        format!("{find};{find} FOR UPDATE SKIP LOCKED")
    }

    /// Fails where somebody has the key's row locked.
    pub(crate) fn try_row(&self, key: &LockKey) -> String {
        let (locks, key) = (&self.locks, self.key(key));
        format!("SELECT k FROM {locks} WHERE k = {key} FOR UPDATE NOWAIT")
    }

    /// Gives the key back if it is the hold's.
    pub(crate) fn release(&self, hold: &HoldId) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let (key, owner) = (self.key(hold.key()), owner(hold.owner()));
        match hold.mode() {
            Mode::Exclusive => format!(
                "UPDATE {locks} SET owner = NULL, expires = {NOW} WHERE k = {key} AND owner = {owner} AND expires > {NOW}"
            ),
            Mode::Shared | Mode::Permit { .. } => format!(
                "START TRANSACTION;
SELECT k FROM {locks} WHERE k = {key} FOR UPDATE;
DELETE FROM {holders} WHERE k = {key} AND owner = {owner};
UPDATE {locks} SET expires = COALESCE((SELECT MAX(expires) FROM {holders} WHERE k = {key}), {NOW}), mode = IF(EXISTS (SELECT 1 FROM {holders} WHERE k = {key}), mode, 'x') WHERE k = {key} AND mode <> 'x';
COMMIT"
            ),
        }
    }

    /// Looks at keys that are waited for: mode, microseconds until the last holder expires, and how
    /// many permits are held.
    pub(crate) fn look<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let keys: Vec<String> = keys.map(crate::layout::hexadecimal).collect();
        format!(
            "SELECT k, mode, IF({FREE}, 0, TIMESTAMPDIFF(MICROSECOND, {NOW}, expires)), IF(mode = 'p', (SELECT COUNT(*) FROM {holders} AS theirs WHERE theirs.k = locks.k AND theirs.expires > {NOW}), 0) FROM {locks} AS locks WHERE k IN ({})",
            keys.join(", ")
        )
    }
}

struct Listed {
    keys: String,
    owners: String,
}

impl Listed {
    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Those of `holds` that are exclusive, or those that are not. An owner holds one key only, so the
/// lists need no pairs.
fn listed(layout: &Layout, holds: &[HoldId], exclusive: bool) -> Listed {
    let listed = || {
        let is_one = move |hold: &&HoldId| (hold.mode() == Mode::Exclusive) == exclusive;
        holds.iter().filter(is_one)
    };
    let keys: Vec<String> = listed().map(|hold| layout.key(hold.key())).collect();
    let owners: Vec<String> = listed().map(|hold| owner(hold.owner())).collect();
    Listed {
        keys: keys.join(", "),
        owners: owners.join(", "),
    }
}

impl Layout {
    /// Locks the key's row in the session's transaction, which stays open, and reads the clock when it
    /// has: with the row where nothing is waited for, else by a statement of its own.
    pub(crate) fn take_row(&self, hold: &HoldId, session: &Session, wait: bool) -> String {
        let timeout = whole_seconds(hold.ttl());
        let timeout = if session.wait_timeout == timeout {
            String::new()
        } else {
            format!("SET SESSION wait_timeout = {timeout};")
        };
        let lock = match (hold.mode(), session.is_mariadb, wait) {
            (Mode::Exclusive, _, true) => "FOR UPDATE",
            (Mode::Exclusive, _, false) => "FOR UPDATE NOWAIT",
            (_, true, false) => "LOCK IN SHARE MODE NOWAIT",
            (_, false, false) => "FOR SHARE NOWAIT",
            (_, _, true) => "LOCK IN SHARE MODE",
        };
        let (clock, afterwards) = if wait {
            (String::new(), format!(";SELECT {GRANT_CLOCK} AS clock"))
        } else {
            (format!(", {GRANT_CLOCK} AS clock"), String::new())
        };
        format!(
            "{timeout}SELECT token, NOT ({FREE}) AS leased{clock} FROM {} WHERE k = {} {lock}{afterwards}",
            self.locks,
            self.key(hold.key())
        )
    }

    /// Counts one more grant of a row lock, from the number on that is written down in the row.
    pub(crate) fn count(&self, key: &LockKey, recorded: u64) -> String {
        let (locks, counter, first) = (&self.locks, self.counter(key), recorded + 1);
        format!(
            "START TRANSACTION;
INSERT INTO {locks} (k, token, expires) VALUES ({counter}, {first}, {NOW}) ON DUPLICATE KEY UPDATE token = GREATEST(token, {recorded}) + 1, expires = {NOW};
SELECT token FROM {locks} WHERE k = {counter} FOR UPDATE;
COMMIT"
        )
    }

    /// Ends the transaction, and writes a token down if it is time to.
    pub(crate) fn release_row(&self, hold: &HoldId, record: Option<u64>) -> String {
        match record {
            None => "ROLLBACK".to_owned(),
            Some(token) => format!(
                "UPDATE {} SET token = GREATEST(token, {token}), expires = {NOW} WHERE k = {};COMMIT",
                self.locks,
                self.key(hold.key())
            ),
        }
    }
}

/// Rounded up, so that the server never ends a hold before we do.
pub(crate) fn whole_seconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
}
