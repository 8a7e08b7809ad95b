//! The statements for leases. Each function returns one packet: one round trip, and at most one
//! commit.
//!
//! Invariant: no two transactions wait for each other in a circle. Why: a transaction locks a key's
//! row in the locks table before its holders, and several rows in the order of their keys.
//!
//! The time is always the server's. `UTC_TIMESTAMP` is the start of a statement, so a statement
//! that waits for a row sees the time before the wait. So statements that lock rows for later
//! statements read no clock, except where the earlier time does no harm.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use lock_core::backend::HoldId;
use lock_core::{LockKey, Mode};

use crate::schema::grant_clock::GRANT_CLOCK;
use crate::schema::literals::{FLOOR_ROW, NOW, hexadecimal, letter, microseconds, owner};
use crate::schema::names::Names;

/// The condition that the key is free, as far as its row tells. A released key is free even if the
/// clock was set back afterwards.
///
/// Invariant: a row of a mode other than 'x' is never free, even if its `expires` has passed. Why:
/// the holders' rows decide, and older clients set `expires` too early when they renew several
/// holders together. Breaks if: a take trusts `expires` alone. Once all holders are dead,
/// [`Names::settle`] sets the mode to 'x'.
pub(crate) const FREE: &str = "mode = 'x' AND (owner IS NULL OR expires <= UTC_TIMESTAMP(6))";

/// The condition that `expires` of a shared key has passed. A holder may still be valid.
pub(crate) const DOUBTFUL: &str = "mode <> 'x' AND expires <= UTC_TIMESTAMP(6)";

/// The value that a take returns instead of a token if the key is [doubtful](DOUBTFUL).
pub(crate) const IN_DOUBT: u64 = 1;

/// The time that a take waits for a locked row, as sessions set it.
const ROW_WAIT_MAX: Duration = Duration::from_secs(1);

/// Positions of results in an answer, counted from its end.
pub(crate) const TAKE_NEW: usize = 1;
pub(crate) const TAKE: usize = 0;
pub(crate) const TAKE_MANY_LOOK: usize = 6;
pub(crate) const TAKE_MANY_GRANT: usize = 1;
pub(crate) const RELEASE_WRITE: usize = 0;
pub(crate) const RELEASE_MANY_WRITE: usize = 2;

impl Names {
    /// Takes the key if it is free. Its row has to exist, unless `new` creates it first.
    ///
    /// If an earlier answer was lost, the claim holds the key already. The grant keeps its number
    /// and its lease begins again, since the client counts the lease from the answered request.
    pub(crate) fn take(&self, hold: &HoldId, new: bool) -> String {
        if hold.mode() == Mode::Exclusive && !new {
            // A single statement is a transaction by itself.
            return self.take_exclusive(hold);
        }
        let take = match hold.mode() {
            Mode::Shared => self.take_many(hold, "locks.mode = 's'"),
            Mode::Upgradeable => {
                let room = format!(
                    "locks.mode = 's' AND NOT {}",
                    self.has_holder("locks.owner")
                );
                self.take_many(hold, &room)
            }
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

    /// Takes an exclusive lock, and returns the grant's number as the last insert id.
    ///
    /// If the row exists but is not free, the last condition sets that id, and is always false. No
    /// id means that there is no row; [`IN_DOUBT`] means that the holders have to be checked.
    ///
    /// The server may evaluate the time before it waits for the row. A hold that expired during the
    /// wait then counts until the next take. The new hold begins no earlier than its take was sent.
    fn take_exclusive(&self, hold: &HoldId) -> String {
        let is_kept = self.is_kept(hold.key(), hold.mode());
        let (locks, key, owner) = (&self.locks, self.key(hold.key()), owner(hold.claim()));
        // The minimum hold counts from the grant, after the wait for the row.
        let wait = match hold.min_hold() {
            Duration::ZERO => Duration::ZERO,
            _ => ROW_WAIT_MAX,
        };
        let (ttl, end) = (renewed_ttl(hold), after(hold.store_ttl() + wait));
        let stored = self.sets_holder(hold);
        format!(
            "INSERT INTO {locks} (k, token, expires)
SELECT k, token, expires FROM {locks} AS free WHERE k = {key} AND ({FREE} AND NOT {is_kept} OR owner = {owner} OR LAST_INSERT_ID(IF({DOUBTFUL}, {IN_DOUBT}, token)) = 0) FOR UPDATE
ON DUPLICATE KEY UPDATE mode = 'x', token = LAST_INSERT_ID(IF({locks}.owner <=> {owner} AND {locks}.expires > {NOW}, {locks}.token, GREATEST({locks}.token + 1, {GRANT_CLOCK}))), owner = {owner}, ttl = {ttl}, expires = {end}{stored}"
        )
    }

    /// Adds a holder, if the key is free or `room` is true.
    ///
    /// `expires` of the key's row is no earlier than the end of the last holder, since older
    /// clients rely on it.
    fn take_many(&self, hold: &HoldId, room: &str) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let (key, owner) = (self.key(hold.key()), owner(hold.claim()));
        let (ttl, end) = (renewed_ttl(hold), after(hold.store_ttl()));
        let (mode, is_kept) = (letter(hold.mode()), self.is_kept(hold.key(), hold.mode()));
        let reach = self.reach_holders();
        let upgradeable = match hold.mode() {
            Mode::Upgradeable => "mine.owner",
            _ => "IF(locks.mode = 's', locks.owner, NULL)",
        };
        let (columns, values) = self.columns_of_holder(hold);
        let slot = self.slot_of_mine();
        format!(
            "{reach};
SELECT mode <> '{mode}' AND {DOUBTFUL} FROM {locks} WHERE k = {key} FOR UPDATE;
DELETE FROM {holders} WHERE k = {key} AND expires <= {NOW};
UPDATE {holders} SET expires = {end} WHERE k = {key} AND owner = {owner};
INSERT INTO {holders} (k, owner, token, ttl, expires{columns})
SELECT k, {owner}, GREATEST(token + 1, {GRANT_CLOCK}), {ttl}, {end}{values} FROM {locks} AS locks
WHERE k = {key} AND ({FREE} OR {room}) AND NOT {is_kept}
ON DUPLICATE KEY UPDATE {holders}.ttl = {holders}.ttl;
UPDATE {locks} AS locks STRAIGHT_JOIN {holders} AS mine ON mine.k = locks.k AND mine.owner = {owner}
SET locks.expires = IF(locks.mode = 'x' AND locks.owner IS NULL, mine.expires, GREATEST(locks.expires, mine.expires)), locks.owner = {upgradeable}, locks.mode = '{mode}', locks.token = GREATEST(locks.token, mine.token)
WHERE locks.k = {key} AND (locks.mode <> 'x' OR locks.owner IS NULL OR locks.expires <= {NOW});
SELECT mine.token, {slot} FROM {locks} AS locks JOIN {holders} AS mine ON mine.k = locks.k WHERE locks.k = {key} AND locks.mode = '{mode}' AND mine.owner = {owner}"
        )
    }

    /// Waits while the table of holders is blocked, before the transaction locks a row.
    ///
    /// A later wait would keep a row locked, and other clients would take the key for held.
    pub(crate) fn reach_holders(&self) -> String {
        format!("SELECT k FROM {} WHERE FALSE FOR UPDATE", self.holders)
    }

    /// Frees a key whose holders have all expired without a release.
    ///
    /// Invariant: the statement sees every holder. Why: a transaction that changes holders has
    /// locked the key's row, and both servers read the holders after they have locked this row.
    /// Breaks if: the subquery does not refer to the row, since a server may then run it first.
    pub(crate) fn settle(&self, key: &LockKey) -> String {
        let (locks, key, is_dead) = (&self.locks, self.key(key), self.has_no_holder());
        format!(
            "UPDATE {locks} AS locks SET mode = 'x', owner = NULL WHERE k = {key} AND {DOUBTFUL} AND {is_dead}"
        )
    }

    /// Returns the condition that the key of the row `locks` has no valid holder.
    pub(crate) fn has_no_holder(&self) -> String {
        format!(
            "NOT EXISTS (SELECT 1 FROM {} AS others WHERE others.k = locks.k AND others.expires > {NOW})",
            self.holders
        )
    }

    /// Returns the condition that `claim` is a valid holder of the key of the row `locks`.
    pub(crate) fn has_holder(&self, claim: &str) -> String {
        format!(
            "EXISTS (SELECT 1 FROM {} AS theirs WHERE theirs.k = locks.k AND theirs.owner = {claim} AND theirs.expires > {NOW})",
            self.holders
        )
    }

    /// Returns the end of the last holder of the key of the row `locks`.
    fn last_end(&self) -> String {
        format!(
            "(SELECT MAX(theirs.expires) FROM {} AS theirs WHERE theirs.k = locks.k)",
            self.holders
        )
    }

    /// Creates the row of a new key.
    ///
    /// If another transaction creates the row at the same time, the statement waits with a shared
    /// lock. So readers that hold the key can still share it during the wait.
    pub(crate) fn create(&self, key: &LockKey) -> String {
        format!("INSERT IGNORE INTO {}", self.new_row(key))
    }

    /// Creates the row like [`create`](Self::create), and locks it for the rest of the transaction.
    ///
    /// Two transactions that share a row and both want to change it would wait for each other.
    fn create_to_change(&self, key: &LockKey) -> String {
        let (locks, row) = (&self.locks, self.new_row(key));
        format!("INSERT INTO {row} ON DUPLICATE KEY UPDATE {locks}.mode = {locks}.mode")
    }

    /// Returns the end of an `INSERT` of a key's row. Its token continues from the floor of purged
    /// rows.
    ///
    /// An existing row is left alone, since it may be locked as long as the key is held.
    fn new_row(&self, key: &LockKey) -> String {
        let (locks, key) = (&self.locks, self.key(key));
        format!(
            "{locks} (k, token, expires) SELECT {key}, GREATEST(COALESCE(MAX(purged.token), 0), {GRANT_CLOCK}), {NOW} FROM {locks} AS purged WHERE purged.k = {FLOOR_ROW} HAVING NOT EXISTS (SELECT 1 FROM {locks} AS made WHERE made.k = {key})"
        )
    }

    /// Prolongs `holds`, and selects the owners that still hold their keys.
    pub(crate) fn renew(&self, holds: &[HoldId]) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let (exclusive, many): (Vec<&HoldId>, Vec<&HoldId>) =
            (holds.iter()).partition(|hold| hold.mode() == Mode::Exclusive);
        let mut statements = Vec::new();
        if !exclusive.is_empty() {
            let (keys, owners) = self.keys_and_owners(&exclusive);
            let held = format!("k IN ({keys}) AND owner IN ({owners}) AND expires > {NOW}");
            let ttl = renewal_ttl(&exclusive, "");
            statements.push(format!(
                "UPDATE {locks} SET expires = {NOW} + INTERVAL {ttl} MICROSECOND WHERE {held}"
            ));
            statements.push(format!("SELECT owner FROM {locks} WHERE {held}"));
        }
        if !many.is_empty() {
            let (keys, owners) = self.keys_and_owners(&many);
            // A server changes each row of the locks table once, for its first holder. So a
            // separate statement sets the last end of keys for which several holds are renewed.
            let repeated = self.repeated(&many);
            let ttl = renewal_ttl(&many, "mine.");
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
SET mine.expires = {NOW} + INTERVAL {ttl} MICROSECOND, locks.expires = GREATEST(locks.expires, {NOW} + INTERVAL {ttl} MICROSECOND)
WHERE locks.k IN ({keys}) AND locks.mode <> 'x' AND mine.owner IN ({owners}) AND mine.expires > {NOW};
{last}SELECT mine.owner FROM {locks} AS locks JOIN {holders} AS mine ON mine.k = locks.k WHERE locks.k IN ({keys}) AND locks.mode <> 'x' AND mine.owner IN ({owners}) AND mine.expires > {NOW};
COMMIT"
            ));
        }
        statements.join(";")
    }

    /// Selects the existing rows of `holds`, and then the rows that are not locked.
    pub(crate) fn find_locked(&self, holds: &[HoldId]) -> String {
        let locks = &self.locks;
        let keys: Vec<String> = holds.iter().map(|hold| self.key(hold.key())).collect();
        let find = format!("SELECT k FROM {locks} WHERE k IN ({})", keys.join(", "));
        format!("{find};{find} FOR UPDATE SKIP LOCKED")
    }

    /// Fails if another transaction has locked the key's row, even a row that is not committed yet.
    ///
    /// If the table is blocked, the first statement waits. On MariaDB, the second statement would
    /// fail with the number of a locked row.
    pub(crate) fn try_row(&self, key: &LockKey) -> String {
        let (locks, key) = (&self.locks, self.key(key));
        format!(
            "SELECT k FROM {locks} WHERE FALSE FOR UPDATE;SELECT k FROM {locks} WHERE k = {key} FOR UPDATE NOWAIT"
        )
    }

    /// Releases the key, if this hold has it; with `left`, lets the hold end after that time.
    pub(crate) fn release(&self, hold: &HoldId, left: Option<Duration>) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let (leave, end) = match left {
            None => (format!("DELETE FROM {holders} WHERE"), NOW.to_owned()),
            Some(left) => {
                let end = after(left);
                let leave =
                    format!("UPDATE {holders} SET expires = {end} WHERE expires > {NOW} AND");
                (leave, end)
            }
        };
        let freed = if left.is_none() { "owner = NULL, " } else { "" };
        let (key, owner) = (self.key(hold.key()), owner(hold.claim()));
        let reach = self.reach_holders();
        match hold.mode() {
            Mode::Exclusive => format!(
                "UPDATE {locks} SET {freed}expires = {end} WHERE k = {key} AND owner = {owner} AND expires > {NOW}"
            ),
            _ => format!(
                "START TRANSACTION;
{reach};
SELECT k FROM {locks} WHERE k = {key} FOR UPDATE;
{leave} k = {key} AND owner = {owner};
UPDATE {locks} SET expires = COALESCE((SELECT MAX(expires) FROM {holders} WHERE k = {key}), {NOW}), mode = IF(EXISTS (SELECT 1 FROM {holders} WHERE k = {key}), mode, 'x'), owner = IF(mode = 'x', NULL, owner) WHERE k = {key} AND mode <> 'x';
COMMIT"
            ),
        }
    }

    /// Selects mode, time until the last holder expires, number of permits or upgradeable holders, and
    /// last token of `keys`.
    ///
    /// The time is in microseconds.
    pub(crate) fn look<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> String {
        let (locks, holders) = (&self.locks, &self.holders);
        let keys: Vec<String> = keys.map(hexadecimal).collect();
        let (last, keys) = (self.last_end(), keys.join(", "));
        let is_upgradeable = self.has_holder("locks.owner");
        format!(
            "SELECT k, mode, IF({FREE}, 0, GREATEST(TIMESTAMPDIFF(MICROSECOND, {NOW}, COALESCE(IF(mode = 'x', expires, {last}), {NOW})), 0)), IF(mode = 'p', (SELECT COUNT(*) FROM {holders} AS theirs WHERE theirs.k = locks.k AND theirs.expires > {NOW}), IF(mode = 's', {is_upgradeable}, 0)), token FROM {locks} AS locks WHERE k IN ({keys})"
        )
    }

    /// Selects mode, owner, token, remaining microseconds and stored description of each holder of
    /// `key`. As one statement, it sees the holders of one moment.
    pub(crate) fn holders_of(&self, key: &LockKey) -> String {
        let (locks, holders, key) = (&self.locks, &self.holders, self.key(key));
        let stored = match self.has_latest_columns() {
            true => "holder",
            false => "token * NULL",
        };
        let left = format!("TIMESTAMPDIFF(MICROSECOND, {NOW}, expires)");
        format!(
            "SELECT 'x', owner, token, {left}, {stored} FROM {locks} WHERE k = {key} AND mode = 'x' AND owner IS NOT NULL AND expires > {NOW}
UNION ALL SELECT (SELECT mode FROM {locks} AS locks WHERE locks.k = {key}), owner, token, {left}, {stored} FROM {holders} WHERE k = {key} AND expires > {NOW}"
        )
    }

    /// Lists the keys and the owners of `holds`. An owner has one key only, so the lists need no
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

/// Returns the moment that is `left` from now on.
pub(crate) fn after(left: Duration) -> String {
    format!("{NOW} + INTERVAL {} MICROSECOND", microseconds(left))
}

/// Returns the ttl that each renewal of a hold begins again, without its minimum hold.
pub(crate) fn renewed_ttl(hold: &HoldId) -> u128 {
    microseconds(hold.ttl() + hold.lock_delay())
}

/// Returns the ttl of a renewal of `holds`, whose columns begin with `table`: that of the row, or
/// what is left of the minimum hold if that is longer.
fn renewal_ttl(holds: &[&HoldId], table: &str) -> String {
    let left = holds
        .iter()
        .filter(|hold| !hold.min_hold().is_zero())
        .map(|hold| {
            let left = microseconds(hold.min_hold());
            format!(" WHEN {} THEN {left}", owner(hold.claim()))
        });
    let left = String::from_iter(left);
    if left.is_empty() {
        return format!("{table}ttl");
    }
    format!("GREATEST({table}ttl, CASE {table}owner{left} ELSE 0 END)")
}
