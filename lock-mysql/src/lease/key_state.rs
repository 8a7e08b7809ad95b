//! The state of a key with a waiter.

use std::time::Duration;

use lock_core::{Mode, Result};

use crate::connection::session::Fields;

/// The state of a key, as the tables describe it.
pub(crate) struct KeyState {
    mode: String,
    left: Duration,
    /// The number of permits, or of upgradeable holders beside readers.
    counted: u64,
    /// The token of the last grant.
    pub(crate) token: u64,
}

impl KeyState {
    pub(crate) fn read(row: &Fields<'_>) -> Result<Self> {
        let left: i64 = row.value(2)?;
        Ok(Self {
            mode: row.value(1)?,
            left: Duration::from_micros(u64::try_from(left).unwrap_or(0)),
            counted: u64::try_from(row.value::<i64>(3)?).unwrap_or(0),
            token: row.value(4)?,
        })
    }

    /// Returns the maximum time that a waiter in `mode` has to wait; `None` if the key is
    /// available.
    pub(crate) fn left_for(&self, mode: Mode) -> Option<Duration> {
        let room = match mode {
            Mode::Shared => self.mode == "s",
            Mode::Upgradeable => self.mode == "s" && self.counted == 0,
            Mode::Permit { of } => self.mode == "p" && self.counted < u64::from(of.get()),
            _ => false,
        };
        (!room && !self.left.is_zero()).then_some(self.left)
    }
}
