//! Places: a key is kept for a client whose waiter was overtaken.
//!
//! Leases have no queue on the server, so a client that takes a key again and again would always
//! win. A waiter that sees other clients get the key enters its client in the key's *place*. A
//! place is a row beside the key's row, and each key has one place. Takes of other clients then
//! leave the key to the client in the place.
//!
//! Places decide the order only, never exclusion. A place that is lost or left behind does no harm,
//! nor does a client that ignores places.

use std::time::Duration;

use lock_core::{LockKey, Mode};

use crate::schema::literals::{NOW, hexadecimal, letter};
use crate::schema::names::Names;

/// Time that a place lasts, in milliseconds. A key is kept this long for a waiter that crashed.
///
/// A waiter renews its place during the wait, and gives it up afterwards.
const PLACE_MS: u32 = 500;

/// Interval at which a waiter renews its place.
pub(crate) const PLACE_ENTERED_ANEW: Duration = Duration::from_millis(200);

/// The first byte of a place's name. No text contains this byte, so a place is no lock's row.
const PLACE: u8 = 0xFE;

fn place_of(row: &[u8]) -> String {
    hexadecimal(&[&[PLACE], row].concat())
}

/// Returns the row of the lock to which the place `name` belongs; `None` if `name` is no place.
pub(crate) fn row_beside(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(&[PLACE])
}

impl Names {
    /// Returns the condition that the key is kept for another client, in a mode that excludes
    /// `mode`.
    ///
    /// The upper bound of `expires` ends a place also if the server's clock was set back.
    pub(crate) fn is_kept(&self, key: &LockKey, mode: Mode) -> String {
        let (locks, place, me) = (&self.locks, place_of(&self.row(key)), &self.me);
        let keeps_out = match mode {
            Mode::Exclusive => String::new(),
            Mode::Shared => " AND place.mode NOT IN ('s', 'u')".to_owned(),
            Mode::Upgradeable => " AND place.mode <> 's'".to_owned(),
            _ => format!(" AND place.mode <> '{}'", letter(mode)),
        };
        format!(
            "EXISTS (SELECT 1 FROM {locks} AS place WHERE place.k = {place} AND place.owner <> {me}{keeps_out} AND place.expires > {NOW} AND place.expires <= {NOW} + INTERVAL {PLACE_MS}000 MICROSECOND)"
        )
    }

    /// Enters this client in the place of `row`, or renews the place if this client has it. Changes
    /// nothing if another client has the place.
    pub(crate) fn enter_place(&self, row: &[u8], mode: Mode) -> String {
        let (locks, place, me) = (&self.locks, place_of(row), &self.me);
        let mode = match mode {
            Mode::Upgradeable => 'u',
            mode => letter(mode),
        };
        let ends = format!("{NOW} + INTERVAL {PLACE_MS}000 MICROSECOND");
        let is_over = format!("{locks}.expires <= {NOW} OR {locks}.expires > {ends}");
        format!(
            "INSERT INTO {locks} (k, mode, owner, token, expires) VALUES ({place}, '{mode}', {me}, 0, {ends})
ON DUPLICATE KEY UPDATE owner = IF({locks}.owner <=> {me} OR {is_over}, {me}, {locks}.owner), mode = IF({locks}.owner <=> {me}, '{mode}', {locks}.mode), expires = IF({locks}.owner <=> {me}, {ends}, {locks}.expires)"
        )
    }

    /// Selects the places of `rows` that this client has.
    pub(crate) fn look_at_places(&self, rows: &[&[u8]]) -> String {
        let (locks, me) = (&self.locks, &self.me);
        let places: Vec<String> = rows.iter().map(|row| place_of(row)).collect();
        let places = places.join(", ");
        format!("SELECT k FROM {locks} WHERE k IN ({places}) AND owner = {me} AND expires > {NOW}")
    }

    /// Gives up the place of `row`, if this client has it.
    pub(crate) fn give_up_place(&self, row: &[u8]) -> String {
        let (locks, place, me) = (&self.locks, place_of(row), &self.me);
        format!("UPDATE {locks} SET expires = {NOW} WHERE k = {place} AND owner = {me}")
    }
}
