//! The server's clock, which numbers grants.
//!
//! `SYSDATE` is the time of its evaluation, not the start of the statement. A statement waits for
//! the locks of other transactions, which may have got grants meanwhile. The driver sets the time
//! zone of each session to UTC.

macro_rules! microseconds {
    () => {
        "TIMESTAMPDIFF(MICROSECOND, '2025-01-01', SYSDATE(6))"
    };
}

/// Microseconds since 2025, from which [`grant_number`] makes a number.
pub(crate) const GRANT_CLOCK_US: &str = microseconds!();

/// Units of 4 microseconds since 2025, which last beyond 2090 in the 49 bits of a token.
///
/// A key never gets more grants in a second than units, so numbers do not run ahead of the clock.
/// Only for statements in which the server itself stores the number: this expression costs the
/// server more.
pub(crate) const GRANT_CLOCK: &str =
    concat!("CAST(GREATEST(", microseconds!(), " DIV 4, 0) AS UNSIGNED)");

/// The condition that `SYSDATE` moves. On a server with `--sysdate-is-now`, it is the start of the
/// statement.
pub(crate) const SYSDATE_MOVES: &str = "SLEEP(0.001) = 0 AND SYSDATE(6) > UTC_TIMESTAMP(6)";

/// Returns the number of a grant at this time.
pub(crate) fn grant_number(microseconds: i64) -> u64 {
    u64::try_from(microseconds / 4).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_numbered_before_the_beginning() {
        assert_eq!(grant_number(59_909_607_123_458), 14_977_401_780_864);
        assert_eq!(grant_number(-1_000_000), 0);
    }
}
