//! Conversions of leases to another mode.

use lock_core::backend::{Clock, Converted, HoldId};
use lock_core::{FencingToken, Mode, Result};

use crate::acquire::REPLY_LIMIT;
use crate::client::{ClaimOf, Client};
use crate::connection::pool::Lent;
use crate::connection::retrying_query::RetryingQuery;
use crate::error::Failure;
use crate::lease::statements::{after, renewed_ttl};
use crate::schema::grant_clock::GRANT_CLOCK;
use crate::schema::literals::{NOW, owner};
use crate::schema::names::Names;
use crate::server_checks::MAY_WRITE;

/// The value that a conversion returns instead of a token if other holders are in the way.
const IN_THE_WAY: u64 = 1;

/// Position of the token, counted from the end of the answer.
const CONVERTED: usize = 1;

impl Names {
    /// Replaces the hold `from` by the claim `to` in another mode, and selects the token of `to`. No
    /// token means that neither is there.
    ///
    /// If an earlier answer was lost, `to` is there already, and its lease begins again.
    fn convert(&self, from: &HoldId, to: &HoldId) -> String {
        match to.mode() {
            Mode::Exclusive => self.upgrade(from, to),
            _ => self.downgrade(from, to),
        }
    }

    fn upgrade(&self, from: &HoldId, to: &HoldId) -> String {
        let (locks, holders, key) = (&self.locks, &self.holders, self.key(from.key()));
        let (from, claim) = (owner(from.claim()), owner(to.claim()));
        let (ttl, end) = (renewed_ttl(to), after(to.store_ttl()));
        let (reach, is_held) = (self.reach_holders(), self.has_holder(&from));
        let stored = self.sets_holder(to);
        format!(
            "START TRANSACTION;
{reach};
SELECT k FROM {locks} WHERE k = {key} FOR UPDATE;
DELETE FROM {holders} WHERE k = {key} AND expires <= {NOW};
UPDATE {locks} SET expires = {end} WHERE k = {key} AND mode = 'x' AND owner = {claim} AND expires > {NOW};
UPDATE {locks} AS locks SET mode = 'x', owner = {claim}, token = GREATEST(token + 1, {GRANT_CLOCK}), ttl = {ttl}, expires = {end}{stored} WHERE k = {key} AND mode = 's' AND {is_held} AND (SELECT COUNT(*) FROM {holders} AS others WHERE others.k = {key}) = 1;
DELETE FROM {holders} WHERE k = {key} AND owner = {from} AND EXISTS (SELECT 1 FROM {locks} WHERE k = {key} AND mode = 'x' AND owner = {claim});
SELECT CAST(IF(mode = 'x', token, {IN_THE_WAY}) AS UNSIGNED) FROM {locks} AS locks WHERE k = {key} AND (mode = 'x' AND owner = {claim} AND expires > {NOW} OR mode = 's' AND {is_held});
COMMIT"
        )
    }

    fn downgrade(&self, from: &HoldId, to: &HoldId) -> String {
        let (locks, holders, key) = (&self.locks, &self.holders, self.key(from.key()));
        let before = from.mode();
        let (from, claim) = (owner(from.claim()), owner(to.claim()));
        let (ttl, end) = (renewed_ttl(to), after(to.store_ttl()));
        let reach = self.reach_holders();
        let (columns, values) = self.columns_of_holder(to);
        let is_held = match before {
            Mode::Exclusive => {
                format!("mode = 'x' AND owner = {from} AND locks.expires > {NOW}")
            }
            _ => format!("mode = 's' AND {}", self.has_holder(&from)),
        };
        format!(
            "START TRANSACTION;
{reach};
SELECT k FROM {locks} WHERE k = {key} FOR UPDATE;
DELETE FROM {holders} WHERE k = {key} AND expires <= {NOW};
UPDATE {holders} SET expires = {end} WHERE k = {key} AND owner = {claim};
INSERT INTO {holders} (k, owner, token, ttl, expires{columns})
SELECT k, {claim}, GREATEST(token + 1, {GRANT_CLOCK}), {ttl}, {end}{values} FROM {locks} AS locks WHERE k = {key} AND {is_held}
ON DUPLICATE KEY UPDATE {holders}.ttl = {holders}.ttl;
DELETE FROM {holders} WHERE k = {key} AND owner = {from};
UPDATE {locks} AS locks STRAIGHT_JOIN {holders} AS mine ON mine.k = locks.k AND mine.owner = {claim}
SET locks.expires = IF(locks.mode = 'x', mine.expires, GREATEST(locks.expires, mine.expires)), locks.owner = IF(locks.owner <=> {from}, NULL, locks.owner), locks.mode = 's', locks.token = GREATEST(locks.token, mine.token)
WHERE locks.k = {key} AND (locks.mode = 's' OR locks.owner <=> {from});
SELECT mine.token FROM {locks} AS locks JOIN {holders} AS mine ON mine.k = locks.k WHERE locks.k = {key} AND locks.mode = 's' AND mine.owner = {claim};
COMMIT"
        )
    }
}

impl Client {
    pub(crate) async fn convert_lease(&self, from: &HoldId, to: &HoldId) -> Result<Converted> {
        self.settled(to.claim(), REPLY_LIMIT).await?;
        let command = self.command()?;
        let ends = Clock::Boot.now().plus(REPLY_LIMIT);
        let answer = loop {
            let claim = ClaimOf(self, to.claim());
            let convert = |_: &Lent| format!("{MAY_WRITE};{}", self.names.convert(from, to));
            let query = RetryingQuery::new(&command.taking, claim, REPLY_LIMIT, convert);
            match query.run(ends.since(Clock::Boot.now())).await {
                Ok((answer, _)) => break answer,
                // Another transaction had the row for long, and nothing has changed.
                Err(Failure::Locked) if Clock::Boot.now() < ends => {}
                Err(Failure::NoColumn(_)) if self.names.has_latest_columns() => {
                    self.names.set_latest_columns(false);
                }
                Err(failure) => return Err(failure.into_error()),
            }
        };
        if let Ok(background) = self.background() {
            background.poller.wake(&self.names.row(from.key()));
        }
        let token = answer.nth_back(CONVERTED)?.first();
        Ok(match token.map(|row| row.value(0)).transpose()? {
            None => Converted::Lost,
            Some(IN_THE_WAY) => Converted::Refused,
            Some(grant) => Converted::Granted {
                token: FencingToken::from_grant(grant)?,
                ttl: to.store_ttl(),
            },
        })
    }
}
