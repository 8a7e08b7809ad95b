//! The statements for leases. Each function gives one packet, so one round trip, with at most one
//! commit.
//!
//! A transaction that changes a key locks its row in the locks table first and its holders after
//! it, several rows in the order of their keys: so no two of them wait for each other in a circle.
//! The time is always the server's. `UTC_TIMESTAMP` is the time at which a statement began, so one
//! that waits for a row sees the time from before: statements that lock rows for later ones read no
//! clock themselves, except where the earlier time does no harm.

use std::collections::{BTreeSet, HashSet};

use lock_core::backend::HoldId;
use lock_core::{LockKey, Mode};

use crate::schema::grant_clock::GRANT_CLOCK;
use crate::schema::literals::{FLOOR_ROW, NOW, hexadecimal, letter, microseconds, owner};
use crate::schema::names::Names;

/// The condition that the key is free, as far as its row alone tells. One that was given back is
/// free also when the clock has been set back to before that.
///
/// Invariant: a row of another mode than 'x' is never free, whatever it says of an end. Why: its
/// holders decide, and older clients leave `expires` too early where they renew several of them
/// together. Once all are dead, [`Names::settle`] makes the mode 'x'.
pub(crate) const FREE: &str = "mode = 'x' AND (owner IS NULL OR expires <= UTC_TIMESTAMP(6))";

/// The condition that the row of a key that is held together says that its holders are dead, which
/// they may not be.
pub(crate) const DOUBTFUL: &str = "mode <> 'x' AND expires <= UTC_TIMESTAMP(6)";

/// The value in place of a key's token in the answer to a take if the key is [doubtful](DOUBTFUL).
pub(crate) const IN_DOUBT: u64 = 1;

/// Where the parts of an answer stand, counted from its end.
pub(crate) const TAKE_NEW: usize = 1;
pub(crate) const TAKE: usize = 0;
pub(crate) const TAKE_MANY_LOOK: usize = 6;
pub(crate) const TAKE_MANY_GRANT: usize = 1;
pub(crate) const RELEASE_WRITE: usize = 0;
pub(crate) const RELEASE_MANY_WRITE: usize = 2;

impl Names {
    /// Takes the key if it is free. Its row has to exist, or is made first if it is `new`.
    ///
    /// Where it was asked before and the answer got lost, it is ours already: the grant stays what
    /// it was, and its lease begins again, since the client counts it from the answer that it gets.
    pub(crate) fn take(&self, hold: &HoldId, new: bool) -> String {
        if hold.mode() == Mode::Exclusive && !new {
            // One statement is a transaction by itself.
            return self.take_exclusive(hold);
        }
        let take = match hold.mode() {
            Mode::Shared => self.take_many(hold, "locks.mode = 's'"),
            Mode::Permit { of } => {
                let room = format!(
                    "locks.mode = 'p' AND (SELECT COUNT(*) FROM {} AS others WHERE others.k = locks.k) < {of}",
                    self.holders
                );
                self.take_many(hold, &room)
            }
            _ => self.take_exclusive(hold),
        };
        let create = if new {
            self.create_to_change(hold.key()) + ";"
        } else {
            String::new()
        };
        format!("START TRANSACTION;{create}{take};COMMIT")
    }

    /// The grant's number is told as the id of what was inserted last. Where the row is there but
    /// not free, the last condition, which never holds, sets that id as well: no id means no row,
    /// and [`IN_DOUBT`] that its holders have to be looked at.
    ///
    /// The time may be that from before a wait for the row. A hold that expired during the wait
    /// then counts as one until it is asked for again, and ours begins no earlier than it was asked
    /// for.
    fn take_exclusive(&self, hold: &HoldId) -> String {
        let is_kept = self.is_kept(hold.key(), hold.mode());
        let (locks, key, owner) = (&self.locks, self.key(hold.key()), owner(hold.claim()));
        let ttl = microseconds(hold.store_ttl());
        format!(
            "INSERT INTO {locks} (k, token, expires)
SELECT k, token, expires FROM {locks} AS free WHERE k = {key} AND ({FREE} AND NOT {is_kept} OR owner = {owner} OR LAST_INSERT_ID(IF({DOUBTFUL}, {IN_DOUBT}, token)) = 0) FOR UPDATE
ON DUPLICATE KEY UPDATE mode = 'x', token = LAST_INSERT_ID(IF({locks}.owner <=> {owner} AND {locks}.expires > {NOW}, {locks}.token, GREATEST({locks}.token + 1, {GRANT_CLOCK}))), owner = {owner}, ttl = {ttl}, expires = {NOW} + INTERVAL {ttl} MICROSECOND"
        )
    }

    /// One more holder, where the key is free or there is `room` beside the others. `expires` of
    /// the locks table is no earlier than when the last of them expires, which is what older
    /// clients go by.
    fn take_many(&self, hold: &HoldId, room: &str) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let (key, owner) = (self.key(hold.key()), owner(hold.claim()));
        let ttl = microseconds(hold.store_ttl());
        let (mode, is_kept) = (letter(hold.mode()), self.is_kept(hold.key(), hold.mode()));
        let reach = self.reach_holders();
        format!(
            "{reach};
SELECT mode <> '{mode}' AND {DOUBTFUL} FROM {locks} WHERE k = {key} FOR UPDATE;
DELETE FROM {holders} WHERE k = {key} AND expires <= {NOW};
UPDATE {holders} SET expires = {NOW} + INTERVAL {ttl} MICROSECOND WHERE k = {key} AND owner = {owner};
INSERT INTO {holders} (k, owner, token, ttl, expires)
SELECT k, {owner}, GREATEST(token + 1, {GRANT_CLOCK}), {ttl}, {NOW} + INTERVAL {ttl} MICROSECOND FROM {locks} AS locks
WHERE k = {key} AND ({FREE} OR {room}) AND NOT {is_kept}
ON DUPLICATE KEY UPDATE {holders}.ttl = {holders}.ttl;
UPDATE {locks} AS locks STRAIGHT_JOIN {holders} AS mine ON mine.k = locks.k AND mine.owner = {owner}
SET locks.expires = IF(locks.mode = 'x' AND locks.owner IS NULL, mine.expires, GREATEST(locks.expires, mine.expires)), locks.mode = '{mode}', locks.owner = NULL, locks.token = GREATEST(locks.token, mine.token)
WHERE locks.k = {key} AND (locks.mode <> 'x' OR locks.owner IS NULL OR locks.expires <= {NOW});
SELECT mine.token FROM {locks} AS locks JOIN {holders} AS mine ON mine.k = locks.k WHERE locks.k = {key} AND locks.mode = '{mode}' AND mine.owner = {owner}"
        )
    }

    /// Waits here where the table of holders is blocked. Further on a row would be locked already,
    /// and to other clients it would look as if the key were held.
    fn reach_holders(&self) -> String {
        format!("SELECT k FROM {} WHERE FALSE FOR UPDATE", self.holders)
    }

    /// Makes a key free whose holders are all dead, although none of them has given it back.
    ///
    /// Invariant: it sees every holder. Why: a transaction that changes holders has locked the row,
    /// and both servers look at the holders after they have got the row's lock. Breaks if: the
    /// subquery does not name the row, since a server may then run it first.
    pub(crate) fn settle(&self, key: &LockKey) -> String {
        let (locks, key, is_dead) = (&self.locks, self.key(key), self.has_no_holder());
        format!(
            "UPDATE {locks} AS locks SET mode = 'x', owner = NULL WHERE k = {key} AND {DOUBTFUL} AND {is_dead}"
        )
    }

    /// Returns the condition that no holder of the key of the row `locks` lives.
    pub(crate) fn has_no_holder(&self) -> String {
        format!(
            "NOT EXISTS (SELECT 1 FROM {} AS others WHERE others.k = locks.k AND others.expires > {NOW})",
            self.holders
        )
    }

    /// Returns when the last holder of the key of the row `locks` expires.
    fn last_end(&self) -> String {
        format!(
            "(SELECT MAX(theirs.expires) FROM {} AS theirs WHERE theirs.k = locks.k)",
            self.holders
        )
    }

    /// Makes the row of a key that is new in the table. One that was made meanwhile is waited for
    /// as by a reader: the key may be held, and is shared with readers also while this waits.
    pub(crate) fn create(&self, key: &LockKey) -> String {
        format!("INSERT IGNORE INTO {}", self.new_row(key))
    }

    /// Makes the row as [`create`](Self::create) does, and locks it for what follows in the
    /// transaction. Two that share a row and want to change it would wait for each other.
    fn create_to_change(&self, key: &LockKey) -> String {
        let (locks, row) = (&self.locks, self.new_row(key));
        format!("INSERT INTO {row} ON DUPLICATE KEY UPDATE {locks}.mode = {locks}.mode")
    }

    /// Returns what is inserted for a key. Its numbers go on where those of a row that was purged
    /// had ended.
    ///
    /// One that is there already is left alone, since it may be locked for as long as the key is
    /// held.
    fn new_row(&self, key: &LockKey) -> String {
        let (locks, key) = (&self.locks, self.key(key));
        format!(
            "{locks} (k, token, expires) SELECT {key}, GREATEST(COALESCE(MAX(purged.token), 0), {GRANT_CLOCK}), {NOW} FROM {locks} AS purged WHERE purged.k = {FLOOR_ROW} HAVING NOT EXISTS (SELECT 1 FROM {locks} AS made WHERE made.k = {key})"
        )
    }

    /// Prolongs `holds`, and answers which of them are there.
    pub(crate) fn renew(&self, holds: &[HoldId]) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let (exclusive, many): (Vec<&HoldId>, Vec<&HoldId>) =
            (holds.iter()).partition(|hold| hold.mode() == Mode::Exclusive);
        let mut statements = Vec::new();
        if !exclusive.is_empty() {
            let (keys, owners) = self.keys_and_owners(&exclusive);
            let held = format!("k IN ({keys}) AND owner IN ({owners}) AND expires > {NOW}");
            statements.push(format!(
                "UPDATE {locks} SET expires = {NOW} + INTERVAL ttl MICROSECOND WHERE {held}"
            ));
            statements.push(format!("SELECT owner FROM {locks} WHERE {held}"));
        }
        if !many.is_empty() {
            let (keys, owners) = self.keys_and_owners(&many);
            // A server changes each row of the locks table once, for the first of its holders, so
            // where several are renewed their last end is set by a statement of its own.
            let repeated = self.repeated(&many);
            let last = if repeated.is_empty() {
                String::new()
            } else {
                format!(
                    "UPDATE {locks} AS locks SET expires = GREATEST(expires, COALESCE({}, expires)) WHERE k IN ({repeated}) AND mode <> 'x';",
                    self.last_end()
                )
            };
            statements.push(format!(
                "START TRANSACTION;
UPDATE {locks} AS locks STRAIGHT_JOIN {holders} AS mine ON mine.k = locks.k
SET mine.expires = {NOW} + INTERVAL mine.ttl MICROSECOND, locks.expires = GREATEST(locks.expires, {NOW} + INTERVAL mine.ttl MICROSECOND)
WHERE locks.k IN ({keys}) AND locks.mode <> 'x' AND mine.owner IN ({owners}) AND mine.expires > {NOW};
{last}SELECT mine.owner FROM {locks} AS locks JOIN {holders} AS mine ON mine.k = locks.k WHERE locks.k IN ({keys}) AND locks.mode <> 'x' AND mine.owner IN ({owners}) AND mine.expires > {NOW};
COMMIT"
            ));
        }
        statements.join(";")
    }

    /// Answers the rows of `holds` that are there, and then those of them that are not locked.
    pub(crate) fn find_locked(&self, holds: &[HoldId]) -> String {
        let locks = &self.locks;
        let keys: Vec<String> = holds.iter().map(|hold| self.key(hold.key())).collect();
        let find = format!("SELECT k FROM {locks} WHERE k IN ({})", keys.join(", "));
        format!("{find};{find} FOR UPDATE SKIP LOCKED")
    }

    /// Fails where another transaction has the key's row locked, also one that is not committed
    /// yet.
    ///
    /// Where the table is blocked, the first statement waits: MariaDB has the second one fail with
    /// the same number.
    pub(crate) fn try_row(&self, key: &LockKey) -> String {
        let (locks, key) = (&self.locks, self.key(key));
        format!(
            "SELECT k FROM {locks} WHERE FALSE FOR UPDATE;SELECT k FROM {locks} WHERE k = {key} FOR UPDATE NOWAIT"
        )
    }

    /// Gives the key back if it is the hold's.
    pub(crate) fn release(&self, hold: &HoldId) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let (key, owner) = (self.key(hold.key()), owner(hold.claim()));
        let reach = self.reach_holders();
        match hold.mode() {
            Mode::Shared | Mode::Permit { .. } => format!(
                "START TRANSACTION;
{reach};
SELECT k FROM {locks} WHERE k = {key} FOR UPDATE;
DELETE FROM {holders} WHERE k = {key} AND owner = {owner};
UPDATE {locks} SET expires = COALESCE((SELECT MAX(expires) FROM {holders} WHERE k = {key}), {NOW}), mode = IF(EXISTS (SELECT 1 FROM {holders} WHERE k = {key}), mode, 'x') WHERE k = {key} AND mode <> 'x';
COMMIT"
            ),
            _ => format!(
                "UPDATE {locks} SET owner = NULL, expires = {NOW} WHERE k = {key} AND owner = {owner} AND expires > {NOW}"
            ),
        }
    }

    /// Looks at keys that are waited for: mode, microseconds until the last holder expires, how
    /// many permits are held, and the token of the last grant.
    pub(crate) fn look<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let keys: Vec<String> = keys.map(hexadecimal).collect();
        let (last, keys) = (self.last_end(), keys.join(", "));
        format!(
            "SELECT k, mode, IF({FREE}, 0, GREATEST(TIMESTAMPDIFF(MICROSECOND, {NOW}, COALESCE(IF(mode = 'x', expires, {last}), {NOW})), 0)), IF(mode = 'p', (SELECT COUNT(*) FROM {holders} AS theirs WHERE theirs.k = locks.k AND theirs.expires > {NOW}), 0), token FROM {locks} AS locks WHERE k IN ({keys})"
        )
    }

    /// Lists the keys and the owners of `holds`. An owner holds one key only, so the lists need no
    /// pairs.
    fn keys_and_owners(&self, holds: &[&HoldId]) -> (String, String) {
        let keys: Vec<String> = holds.iter().map(|hold| self.key(hold.key())).collect();
        let owners: Vec<String> = holds.iter().map(|hold| owner(hold.claim())).collect();
        (keys.join(", "), owners.join(", "))
    }

    /// Lists the keys that several of `holds` share.
    fn repeated(&self, holds: &[&HoldId]) -> String {
        let (mut once, mut repeated) = (HashSet::new(), BTreeSet::new());
        for hold in holds {
            if !once.insert(hold.key()) {
                repeated.insert(self.key(hold.key()));
            }
        }
        Vec::from_iter(repeated).join(", ")
    }
}
