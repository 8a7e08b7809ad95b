//! The columns that tables of earlier versions lack: who holds a key, and the slot of a permit.

use lock_core::Mode;
use lock_core::backend::HoldId;

use crate::schema::literals::holder;
use crate::schema::names::Names;

impl Names {
    /// Returns the assignment of the holder in a key's row, after a comma; empty for earlier tables.
    pub(crate) fn sets_holder(&self, hold: &HoldId) -> String {
        match self.has_latest_columns() {
            true => format!(", holder = {}", holder(hold)),
            false => String::new(),
        }
    }

    /// Returns the latest columns of a holder's row and their values, each after a comma; both are
    /// empty for earlier tables.
    pub(crate) fn columns_of_holder(&self, hold: &HoldId) -> (&'static str, String) {
        if !self.has_latest_columns() {
            return ("", String::new());
        }
        let slot = match hold.mode() {
            Mode::Permit { .. } => self.lowest_free_slot(&self.key(hold.key())),
            _ => "NULL".to_owned(),
        };
        (", holder, slot", format!(", {}, {slot}", holder(hold)))
    }

    /// Returns the column with the slot of the holder `mine`.
    pub(crate) fn slot_of_mine(&self) -> &'static str {
        match self.has_latest_columns() {
            true => "mine.slot",
            false => "NULL",
        }
    }

    /// Returns the lowest slot that no holder of `key` has. It is below the limit of a permit for
    /// which there is room, since at most one holder has each slot.
    fn lowest_free_slot(&self, key: &str) -> String {
        let holders = &self.holders;
        format!(
            "(SELECT MIN(next.slot) FROM (SELECT 0 AS slot UNION ALL SELECT slot + 1 FROM {holders} WHERE k = {key} AND slot IS NOT NULL) AS next WHERE NOT EXISTS (SELECT 1 FROM {holders} AS taken WHERE taken.k = {key} AND taken.slot = next.slot))"
        )
    }
}
