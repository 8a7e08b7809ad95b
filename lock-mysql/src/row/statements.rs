//! The statements for row locks. Each function returns one packet: one round trip.

use std::time::Duration;

use lock_core::backend::HoldId;
use lock_core::{LockKey, Mode};

use crate::connection::session::Session;
use crate::lease::statements::{DOUBTFUL, FREE};
use crate::schema::grant_clock::GRANT_CLOCK_US;
use crate::schema::literals::{FLOOR_ROW, NOW, whole_seconds};
use crate::schema::names::Names;
use crate::server_checks::REFUSAL;

impl Names {
    /// Locks the key's row in the session's transaction, which stays open, and then reads the
    /// clock.
    ///
    /// Reads the clock with the row if the server can read it after the lock, else by a statement
    /// of its own. The start of the statement is too early: other claims may have got grants since.
    ///
    /// With `wait`, InnoDB waits that long for a locked row. Without it, the answer leaves out a
    /// locked row: MariaDB reports the same error for a locked row and a blocked table.
    ///
    /// The session gets its new timeouts even if the lock is refused, since the first statement
    /// sets them.
    pub(crate) fn take_row(
        &self,
        hold: &HoldId,
        session: &mut Session,
        wait: Option<Duration>,
    ) -> String {
        let timeouts = session.set_timeouts(whole_seconds(hold.ttl()), wait.map(whole_seconds));
        let lock = match (hold.mode(), session.is_mariadb, wait.is_some()) {
            (Mode::Exclusive, _, true) => "FOR UPDATE",
            (Mode::Exclusive, _, false) => "FOR UPDATE SKIP LOCKED",
            (_, true, false) => "LOCK IN SHARE MODE SKIP LOCKED",
            (_, false, false) => "FOR SHARE SKIP LOCKED",
            (_, _, true) => "LOCK IN SHARE MODE",
        };
        let (clock, afterwards) = if session.sysdate_moves {
            (format!(", {GRANT_CLOCK_US} AS clock"), String::new())
        } else {
            (String::new(), format!(";SELECT {GRANT_CLOCK_US} AS clock"))
        };
        format!(
            "{timeouts}SELECT token, (NOT ({FREE})) + ({DOUBTFUL}) AS leased, {REFUSAL} AS refusal{clock} FROM {} WHERE k = {} {lock}{afterwards}",
            self.locks,
            self.key(hold.key())
        )
    }

    /// Ends the transaction of a take that got no row, and looks whether the row exists.
    ///
    /// Selects for an existing row whether it was created, or its lease has ended, within the last
    /// second.
    pub(crate) fn look_for_row(&self, key: &LockKey) -> String {
        let (locks, key) = (&self.locks, self.key(key));
        format!(
            "ROLLBACK;SELECT expires > {NOW} - INTERVAL 1 SECOND FROM {locks} WHERE k = {key};ROLLBACK"
        )
    }

    /// Counts one more grant of a row lock, from the number that is stored in the row.
    pub(crate) fn count(&self, key: &LockKey, recorded: u64) -> String {
        let (locks, counter) = (&self.locks, self.counter(key));
        format!(
            "START TRANSACTION;
INSERT INTO {locks} (k, token, expires) SELECT {counter}, GREATEST(COALESCE(MAX(purged.token), 0), {recorded}) + 1, {NOW} FROM {locks} AS purged WHERE purged.k = {FLOOR_ROW} ON DUPLICATE KEY UPDATE token = GREATEST({locks}.token, {recorded}) + 1, expires = {NOW};
SELECT token FROM {locks} WHERE k = {counter} FOR UPDATE;
COMMIT"
        )
    }

    /// Ends the transaction, and stores the token `record` before, if there is one.
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
