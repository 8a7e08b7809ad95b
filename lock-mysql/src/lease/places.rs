//! Turns among clients: one that waits, and is passed over, has the key kept for it.
//!
//! Nothing queues for a lease, so a client that takes a key again and again would be the first each
//! time. A waiter that sees other clients get the key enters its client in a *place* beside it, of
//! which there is one a key, and takes of all other clients leave the key to that one. Only the
//! order goes by places, never exclusion: one that is lost or left behind does no harm, and clients
//! that know nothing of them neither.

use std::time::Duration;

use lock_core::{LockKey, Mode};

use crate::schema::literals::{NOW, hexadecimal, letter};
use crate::schema::names::Names;

/// The time that a place lasts. Its waiter enters it anew while it waits, and gives it up after
/// that, so this is how long a key is kept for one that has died.
const PLACE_MS: u32 = 500;

/// The interval at which a waiter enters its place anew.
pub(crate) const PLACE_ENTERED_ANEW: Duration = Duration::from_millis(200);

/// The first byte of the name of a place. No text has this byte, so a place is no lock's row.
const PLACE: u8 = 0xFE;

fn place_of(row: &[u8]) -> String {
    hexadecimal(&[&[PLACE], row].concat())
}

/// The row of the key that this is the place of; `None` if it is no place.
pub(crate) fn row_beside(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(&[PLACE])
}

impl Names {
    /// Returns the condition that the key is kept for another client, which waits for it in a mode
    /// that keeps this one out.
    ///
    /// A place lasts for a moment only, also where the server's clock is set back meanwhile.
    pub(crate) fn is_kept(&self, key: &LockKey, mode: Mode) -> String {
        let (locks, place, me) = (&self.locks, place_of(&self.row(key)), &self.me);
        let keeps_out = match mode {
            Mode::Shared | Mode::Permit { .. } => format!(" AND place.mode <> '{}'", letter(mode)),
            _ => String::new(),
        };
        format!(
            "EXISTS (SELECT 1 FROM {locks} AS place WHERE place.k = {place} AND place.owner <> {me}{keeps_out} AND place.expires > {NOW} AND place.expires <= {NOW} + INTERVAL {PLACE_MS}000 MICROSECOND)"
        )
    }

    /// Enters this client in the place of the key with this row, or does so anew, unless another
    /// one is in it.
    pub(crate) fn enter_place(&self, row: &[u8], mode: Mode) -> String {
        let (locks, place, me, mode) = (&self.locks, place_of(row), &self.me, letter(mode));
        let ends = format!("{NOW} + INTERVAL {PLACE_MS}000 MICROSECOND");
        let is_over = format!("{locks}.expires <= {NOW} OR {locks}.expires > {ends}");
        format!(
            "INSERT INTO {locks} (k, mode, owner, token, expires) VALUES ({place}, '{mode}', {me}, 0, {ends})
ON DUPLICATE KEY UPDATE owner = IF({locks}.owner <=> {me} OR {is_over}, {me}, {locks}.owner), mode = IF({locks}.owner <=> {me}, '{mode}', {locks}.mode), expires = IF({locks}.owner <=> {me}, {ends}, {locks}.expires)"
        )
    }

    /// Answers the places beside these rows that this client is in.
    pub(crate) fn look_at_places(&self, rows: &[&[u8]]) -> String {
        let (locks, me) = (&self.locks, &self.me);
        let places: Vec<String> = rows.iter().map(|row| place_of(row)).collect();
        let places = places.join(", ");
        format!("SELECT k FROM {locks} WHERE k IN ({places}) AND owner = {me} AND expires > {NOW}")
    }

    /// Gives the place of the key with this row up, if this client is in it.
    pub(crate) fn give_up_place(&self, row: &[u8]) -> String {
        let (locks, place, me) = (&self.locks, place_of(row), &self.me);
        format!("UPDATE {locks} SET expires = {NOW} WHERE k = {place} AND owner = {me}")
    }
}
