//! Values as literals in statements.

use std::fmt::Write;
use std::time::Duration;

use lock_core::Mode;
use lock_core::backend::{ClaimId, HoldId};

/// The server's time at the start of the statement.
pub(crate) const NOW: &str = "UTC_TIMESTAMP(6)";

/// The key of the row that stores a floor for the tokens of purged rows. No lock's key is empty.
pub(crate) const FLOOR_ROW: &str = "x''";

/// Formats bytes as a hexadecimal literal, which needs no escaping.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    format!("x'{}'", digits(bytes))
}

/// Formats bytes as hexadecimal digits, like the display of a claim id.
pub(crate) fn digits(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

pub(crate) fn owner(owner: ClaimId) -> String {
    format!("x'{owner}'")
}

/// Returns the value of the column `holder`: the claim id, by which a reader sees that it is of the
/// present owner, and the metadata of the holder.
pub(crate) fn holder(hold: &HoldId) -> String {
    hexadecimal(format!("{} {}", hold.claim(), hold.metadata()).as_bytes())
}

/// Returns the letter of `mode` in the tables. An upgradeable holder is a shared one, whose claim is
/// the owner in the key's row.
pub(crate) fn letter(mode: Mode) -> char {
    match mode {
        Mode::Shared | Mode::Upgradeable => 's',
        Mode::Permit { .. } => 'p',
        _ => 'x',
    }
}

/// Returns `ttl` in microseconds, rounded up: the server never ends a hold before the client does.
pub(crate) fn microseconds(ttl: Duration) -> u128 {
    ttl.as_nanos().div_ceil(1000)
}

/// Returns `ttl` in seconds, rounded up for the same reason as [`microseconds`].
pub(crate) fn whole_seconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers() {
        assert_eq!(hexadecimal("'é".as_bytes()), "x'27c3a9'");
        assert_eq!(microseconds(Duration::from_nanos(1001)), 2);
    }
}
